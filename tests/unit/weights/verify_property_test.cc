// Whatever happens to one file of a model is found, in every layout; and nothing is found once it is undone.
#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <fstream>
#include <functional>

#include "orchestrator/base/file.h"
#include "orchestrator/base/rng.h"
#include "orchestrator/weights/layout.h"
#include "orchestrator/weights/verify.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"
#include "tests/support/tiny_model.h"
#include "tests/unit/weights/staging.h"

namespace sweep::weights {

namespace {

namespace fs = std::filesystem;

constexpr int kShards = 12;
constexpr int kMutations = 1000;

std::string read(const fs::path& path) {
  const auto content = base::read_file(path);
  REQUIRE(content.has_value());
  return *content;
}

void write_file(const fs::path& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  REQUIRE(file.good());
}

void write_model(const fs::path& dir) {
  test::write_tiny_model(dir, {.shards = kShards});
  fs::create_directory(dir / "encoder");
  write_file(dir / "encoder" / "config.json", R"({"layers":2})");
}

// The same model in one of the layouts.
struct Target {
  Layout layout;
  fs::path dir;    // what is verified
  fs::path files;  // the folder with the files' names
};

enum class Expected { kNotVerified, kWarning };

// One mutation at a time; `undo` restores what `mutate` did.
class Mutator {
 public:
  Mutator(const Pin& pin, base::SplitMix64& random) : pin_(pin), random_(random) { write_model(outside_.path()); }

  std::string mutate(const Target& target) {
    target_ = &target;
    name_ = pick();
    expected_ = Expected::kNotVerified;
    using Mutation = std::string (Mutator::*)();
    constexpr auto kKinds = std::to_array<Mutation>(
        {&Mutator::flip, &Mutator::flip, &Mutator::flip, &Mutator::cut, &Mutator::append, &Mutator::swap,
         &Mutator::remove, &Mutator::extra, &Mutator::stale_record, &Mutator::flip_under_stale_record, &Mutator::escape,
         &Mutator::other_case, &Mutator::folder, &Mutator::pipe});
    return fmt::format("{}: {} {}", layout_name(target.layout), name_, (this->*kKinds[random_.below(kKinds.size())])());
  }
  void undo() {
    for (; !undo_.empty(); undo_.pop_back()) undo_.back()();
  }
  Expected expected() const { return expected_; }

 private:
  bool in_cache() const { return target_->layout == Layout::kHubCache; }
  std::string pick() { return pin_.files[random_.below(pin_.files.size())].path; }
  fs::path path() const { return target_->files / name_; }

  void change_content(const std::string& content) {
    const fs::path real = fs::canonical(path());
    undo_.emplace_back([real, original = read(real)] { write_file(real, original); });
    write_file(real, content);
  }
  // Takes the name away; undo puts it back as it was, a link as a link.
  void take_away(const fs::path& path) {
    const fs::path kept = outside_ / "taken-away";
    fs::rename(path, kept);
    undo_.emplace_back([path, kept] {
      fs::remove_all(path);
      fs::rename(kept, path);
    });
  }
  void add_file(const fs::path& path) {
    undo_.emplace_back([path] { fs::remove(path); });
    fs::copy_file(outside_ / name_, path);
  }

  std::string flip() {
    std::string content = read(path());
    const size_t at = random_.below(content.size());
    content[at] = static_cast<char>(content[at] ^ static_cast<char>(1 << random_.below(8)));
    change_content(content);
    return fmt::format("with a bit of byte {} flipped", at);
  }
  std::string cut() {
    const std::string content = read(path());
    const size_t size = random_.below(content.size());
    change_content(content.substr(0, size));
    return fmt::format("cut to {} bytes", size);
  }
  std::string append() {
    change_content(read(path()) + static_cast<char>(random_.below(256)));
    return "with a byte more";
  }
  std::string swap() {
    std::string other = pick();
    while (other == name_) other = pick();
    const fs::path a = path();
    const fs::path b = target_->files / other;
    const auto exchange = [a, b] {
      const fs::path between = a.parent_path() / "between";
      fs::rename(a, between);
      fs::rename(b, a);
      fs::rename(between, b);
    };
    exchange();
    undo_.emplace_back(exchange);
    return "in exchange for " + other;
  }
  std::string remove() {
    const bool blob = in_cache() && random_.below(2) == 0;
    take_away(blob ? fs::canonical(path()) : path());
    return blob ? "without its blob" : "removed";
  }
  std::string extra() {
    add_file(target_->files / fmt::format("extra-{}.safetensors", random_.below(100)));
    return "a second time as an extra file";
  }
  // Another commit or identifier in the record: the content is right, and somebody should know.
  std::string stale_record() {
    expected_ = Expected::kWarning;
    if (target_->layout == Layout::kPlain) {
      add_file(target_->files / "notes.md");
      return "beside a file that nobody loads";
    }
    if (in_cache()) {
      const fs::path blob = fs::canonical(path());
      const fs::path renamed = blob.parent_path() / std::string(64, 'e');
      fs::rename(blob, renamed);
      undo_.emplace_back([blob, renamed] { fs::rename(renamed, blob); });
      take_away(path());
      fs::create_symlink(renamed, path());
      return "with a blob of another name";
    }
    const bool commit = random_.below(2) == 0;
    const fs::path record = target_->files / ".cache/huggingface/download" / (name_ + ".metadata");
    const std::string text = read(record);
    undo_.emplace_back([record, text] { write_file(record, text); });
    write_file(record, commit ? std::string(40, 'e') + text.substr(40)
                              : text.substr(0, 41) + std::string(64, 'e') + text.substr(41 + 64));
    return commit ? "with the record of another commit" : "with the record of another object";
  }
  std::string flip_under_stale_record() {
    const std::string record = stale_record();
    expected_ = Expected::kNotVerified;
    return record + ", " + flip();
  }
  std::string escape() {
    take_away(path());
    fs::create_symlink(outside_ / name_, path());
    return "as a link to the same content outside";
  }
  std::string other_case() {
    std::string changed = name_;
    const size_t at = changed.find_first_of("cmt", changed.rfind('/') + 1);  // npos + 1 is 0
    changed[at] = static_cast<char>(changed[at] - 'a' + 'A');
    add_file(target_->files / changed);
    return "a second time as " + changed;
  }
  std::string folder() {
    take_away(path());
    fs::create_directory(path());
    return "as a folder";
  }
  std::string pipe() {
    take_away(path());
    REQUIRE(::mkfifo(path().c_str(), 0600) == 0);
    return "as a named pipe";
  }

  const Pin& pin_;
  base::SplitMix64& random_;
  test::TestDir outside_;  // the same files
  const Target* target_ = nullptr;
  std::string name_;
  Expected expected_ = Expected::kNotVerified;
  std::vector<std::function<void()>> undo_;
};

}  // namespace

TEST_CASE("verify: every one of 1000 random mutations of a 12-shard model is found, in every layout") {
  const test::TestDir parent;
  const test::TestDir cache;
  fs::create_directories(parent / "plain");
  fs::create_directories(parent / "local");
  write_model(parent / "plain");
  write_model(parent / "local");
  const Pin pin = pin_of(parent / "plain", "org/tiny");
  make_local_dir(parent / "local", pin);
  const fs::path folder = make_hub_cache(cache.path(), parent / "plain", pin);
  const auto targets = std::to_array<Target>({{Layout::kPlain, parent / "plain", parent / "plain"},
                                              {Layout::kLocalDir, parent / "local", parent / "local"},
                                              {Layout::kHubCache, cache.path(), snapshot_of(folder, pin)}});
  const test::TestDir memory;
  base::SplitMix64 random(20260);
  Mutator mutator(pin, random);
  for (int i = 0; i < kMutations; ++i) {
    const Target& target = targets[random.below(targets.size())];
    const std::string what = mutator.mutate(target);
    CAPTURE(i, what);
    VerifyOptions options{.threads = 2};
    if (random.below(2) == 0) options.cache_folder = memory.path();  // what is remembered must not hide a change
    const Report report = verify(target.dir, pin, options);
    if (mutator.expected() == Expected::kNotVerified) {
      CHECK(!report.verified);
      CHECK(report.findings.has_errors());
    } else {
      CHECK(report.verified);
      CHECK(report.findings.warning_count() == 1);
    }
    mutator.undo();
    const Report restored = verify(target.dir, pin, options);
    CHECK(restored.verified);
    CHECK(restored.findings.empty());
  }
}

}  // namespace sweep::weights
