// Broken disks, killed processes and writers that do not wait: `weights verify` never calls wrong bytes verified.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "orchestrator/base/clock.h"
#include "orchestrator/base/file.h"
#include "orchestrator/exec/capture.h"
#include "orchestrator/weights/file_stamp.h"
#include "orchestrator/weights/pin_folder.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"
#include "tests/support/tiny_model.h"

using namespace sweep;
using namespace sweep::test;
using nlohmann::json;

namespace {

constexpr int kShards = 4;
const std::string kVictim = shard_name(2, kShards);

// A staged model of a few megabytes with its pin, and the built command with a cache of its own.
class Staged {
 public:
  Staged() {
    std::filesystem::create_directory(model());
    write_tiny_model(model(), {.shards = kShards, .tensors_per_shard = 2, .rows = 100'000});
    diag::Diagnostics findings;
    const auto pin =
        weights::pin_from_dir(model(), {.model = "tiny", .revision = {}, .generator = "test"}, {}, findings);
    REQUIRE(pin.has_value());
    REQUIRE(weights::write_pin(dir_ / "pin.json", *pin).has_value());
    files_ = pin->files.size();
  }

  std::filesystem::path model() const { return dir_ / "model"; }
  std::filesystem::path victim() const { return model() / kVictim; }
  size_t files() const { return files_; }
  std::string read_victim() const { return dir_.read("model/" + kVictim); }
  void write_victim(const std::string& content) const { dir_.write("model/" + kVictim, content); }
  void write_next(const std::string& content) const { dir_.write("model/" + kVictim + ".next", content); }

  exec::Captured verify(const std::string& fault = {}, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{
        SWEEPCTL_PROGRAMS "/sweepctl", "--format",  "json", "weights", "verify", model().string(), "--pin",
        (dir_ / "pin.json").string(),  "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    exec::CommandSpec command{.argv = std::move(arguments), .environment = {{"SWEEPCTL_CACHE", cache().string()}}};
    if (!fault.empty()) {
      command.environment.push_back({"LD_PRELOAD", SWEEP_READ_FAULT_LIBRARY});
      command.environment.push_back({"SWEEP_READ_FAULT", fault});
      const char* options = std::getenv("ASAN_OPTIONS");
      command.environment.push_back(
          {"ASAN_OPTIONS", std::string(options == nullptr ? "" : options) + ":verify_asan_link_order=0"});
    }
    auto ran = exec::capture(command, "", {}, {});
    REQUIRE(ran.has_value());
    return std::move(*ran);
  }

  // Until every later write is sure to change a stamp. False on a file system where no stamp proves anything.
  bool settle() const {
    const base::FileDescriptor fd(::open(victim().c_str(), O_RDONLY | O_CLOEXEC));
    if (weights::why_stamp_proves_nothing(fd.get())) return false;
    for (const auto& entry : std::filesystem::directory_iterator(model())) {
      struct stat status {};
      REQUIRE(::stat(entry.path().c_str(), &status) == 0);
      while (!weights::is_settled(weights::stamp_of(status), base::unix_ns())) ::usleep(10'000);
    }
    return true;
  }

  std::filesystem::path cache() const { return dir_ / "cache"; }

 private:
  TestDir dir_;
  size_t files_ = 0;
};

std::string status_of(const json& report, const std::string& path) {
  for (const json& file : report["files"])
    if (file["path"] == path) return file["status"];
  return {};
}

uint64_t size_of_all(const Staged& m) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(m.model())) bytes += entry.file_size();
  return bytes;
}

}  // namespace

TEST_CASE("weights fault: a disk error is reported for its file, and the rest is still checked") {
  const Staged m;
  for (const char* nth : {"1", "3"}) {
    const auto ran = m.verify(std::string("eio:") + nth + ":" + kVictim);
    CHECK(ran.status.code == 1);
    const json report = json::parse(ran.output);
    CHECK(report["verified"] == false);
    CHECK(status_of(report, kVictim) == "unreadable");
    CHECK(status_of(report, shard_name(1, kShards)) == "ok");
    CHECK(status_of(report, shard_name(4, kShards)) == "ok");
    CHECK(contains(ran.output, "Input/output error"));
  }
  CHECK(m.verify().status.code == 0);
}

TEST_CASE("weights fault: a file that changes while it is hashed is never verified") {
  for (const char* fault : {"append:2:", "overwrite:2:", "truncate:2:", "replace:2:", "replace:1:"}) {
    CAPTURE(fault);
    const Staged m;
    m.write_next(m.read_victim());  // even by a file of the same bytes: what was hashed is not what is there
    const auto ran = m.verify(fault + kVictim);
    CHECK(ran.status.code == 1);
    const json report = json::parse(ran.output);
    CHECK(report["verified"] == false);
    CHECK(status_of(report, kVictim) == "changed");
  }
}

TEST_CASE("weights fault: short and interrupted reads are read on") {
  const Staged m;
  CHECK(m.verify("short:0:" + kVictim).status.code == 0);
  CHECK(m.verify("eintr:0:" + kVictim).status.code == 0);
}

TEST_CASE("weights fault: killed at any read, the next verification is right, whatever happened in between") {
  const Staged m;
  if (!m.settle()) SWEEP_SKIP("the file system under the temporary folder keeps no time stamps to rely on");
  const std::string good = m.read_victim();
  for (const char* nth : {"1", "2", "3"}) {
    CAPTURE(nth);
    const auto killed = m.verify(std::string("kill:") + nth + ":" + kVictim);
    CHECK(killed.status.signal == SIGKILL);
    std::string bad = good;
    bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 1);
    m.write_victim(bad);
    const auto ran = m.verify();
    CHECK(ran.status.code == 1);
    CHECK(status_of(json::parse(ran.output), kVictim) == "hash-mismatch");
    m.write_victim(good);
    CHECK(m.verify().status.code == 0);
  }
}

TEST_CASE("weights resume: an interrupted verification reports what it knows and is continued, cache or not") {
  const Staged m;
  if (!m.settle()) SWEEP_SKIP("the file system under the temporary folder keeps no time stamps to rely on");
  const std::string file = (m.cache().parent_path() / "report.json").string();
  const auto interrupted = m.verify("interrupt:2:" + kVictim, {"--no-cache", "--report", file});
  CHECK(interrupted.status.code == 130);
  const json partial = json::parse(*base::read_file(file));
  CHECK(partial == json::parse(interrupted.output));
  CHECK(partial["verified"] == false);
  CHECK(partial["cancelled"] == true);
  CHECK(status_of(partial, kVictim) == "not-checked");
  CHECK(status_of(partial, shard_name(1, kShards)) == "ok");

  SECTION("what was read before is not read again") {
    // Longest first, shards in order: one of them was through.
    const auto resumed = m.verify("eio:1:" + shard_name(1, kShards), {"--no-cache", "--report", file, "--resume"});
    CHECK(resumed.status.code == 0);
    const json report = json::parse(*base::read_file(file));
    CHECK(report["verified"] == true);
    CHECK(report["bytes_cached"] == std::filesystem::file_size(m.model() / shard_name(1, kShards)));
  }
  SECTION("unless it was changed since") {
    std::string bad = m.read_victim();
    std::filesystem::rename(m.victim(), m.model() / shard_name(1, kShards));
    m.write_victim(bad);
    CHECK(m.verify({}, {"--no-cache", "--report", file, "--resume"}).status.code == 1);
  }
  SECTION("a file that is no report is not overwritten") {
    REQUIRE(base::write_file_atomic(file, "{}").has_value());
    CHECK(m.verify({}, {"--report", file, "--resume"}).status.code == 1);
    CHECK(*base::read_file(file) == "{}");
  }
  SECTION("and a report to continue must be named") {
    CHECK(m.verify({}, {"--resume"}).status.code == 2);
  }
}

TEST_CASE("weights cache: an unchanged model is not read again, and --no-cache reads it") {
  const Staged m;
  if (!m.settle()) SWEEP_SKIP("the file system under the temporary folder keeps no time stamps to rely on");
  const uint64_t all = size_of_all(m);
  const json first = json::parse(m.verify().output);
  CHECK(first["bytes"] == all);
  const json again = json::parse(m.verify().output);
  CHECK(again["verified"] == true);
  CHECK(again["bytes"] == 0);
  CHECK(again["bytes_cached"] == all);
  CHECK(again["files"][0]["sha256"] == first["files"][0]["sha256"]);
  // A read that would fail proves that nothing is read.
  CHECK(m.verify("eio:1:" + kVictim).status.code == 0);
  CHECK(m.verify("eio:1:" + kVictim, {"--no-cache"}).status.code == 1);
}

TEST_CASE("weights cache: any write to a file that was verified is found") {
  const Staged m;
  if (!m.settle()) SWEEP_SKIP("the file system under the temporary folder keeps no time stamps to rely on");
  REQUIRE(m.verify().status.code == 0);
  const std::string good = m.read_victim();

  SECTION("in place, with the old modification time set again") {
    const auto time = std::filesystem::last_write_time(m.victim());
    std::string bad = good;
    bad.back() = static_cast<char>(bad.back() ^ 1);
    const base::FileDescriptor fd(::open(m.victim().c_str(), O_WRONLY | O_CLOEXEC));
    REQUIRE(::pwrite(fd.get(), bad.data(), bad.size(), 0) == static_cast<ssize_t>(bad.size()));
    std::filesystem::last_write_time(m.victim(), time);
  }
  SECTION("another file renamed into its place") {
    std::string bad = good;
    bad.front() = static_cast<char>(bad.front() ^ 1);
    m.write_next(bad);
    std::filesystem::rename(m.victim().string() + ".next", m.victim());
  }
  const auto ran = m.verify();
  CHECK(ran.status.code == 1);
  CHECK(contains(ran.output, "weights/hash-mismatch"));
}

TEST_CASE("weights cache: a damaged or foreign cache is not believed") {
  const Staged m;
  if (!m.settle()) SWEEP_SKIP("the file system under the temporary folder keeps no time stamps to rely on");
  REQUIRE(m.verify().status.code == 0);
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(m.cache() / "verified")) file = entry.path();
  const std::string text = *base::read_file(file);
  const uint64_t all = size_of_all(m);
  const auto bytes_read = [&] { return json::parse(m.verify().output)["bytes"]; };

  SECTION("one byte of it is another") {
    std::string damaged = text;
    damaged[text.find("\"sha256\"") + 12] = '0';
    if (damaged == text) damaged[text.find("\"sha256\"") + 12] = '1';
    REQUIRE(base::write_file_atomic(file, damaged).has_value());
    CHECK(bytes_read() == all);
    CHECK(bytes_read() == 0);  // and it was written anew
  }
  SECTION("cut") {
    REQUIRE(base::write_file_atomic(file, text.substr(0, text.size() / 2)).has_value());
    CHECK(bytes_read() == all);
  }
  SECTION("others could write to it") {
    std::filesystem::permissions(file, std::filesystem::perms::others_write, std::filesystem::perm_options::add);
    CHECK(bytes_read() == all);
  }
  SECTION("others could write to its folder") {
    std::filesystem::permissions(file.parent_path(), std::filesystem::perms::group_write,
                                 std::filesystem::perm_options::add);
    CHECK(bytes_read() == all);
  }
}

TEST_CASE("weights cache: a folder that cannot be written is said, and does no harm") {
  const Staged m;
  REQUIRE(base::write_file_atomic(m.cache(), "a file where the folder should be").has_value());
  const auto ran = m.verify();
  if (m.settle()) {
    const auto settled = m.verify();
    CHECK(settled.status.code == 0);
    CHECK(contains(settled.output, "weights/cache-unwritable"));
  }
  CHECK(ran.status.code == 0);
}
