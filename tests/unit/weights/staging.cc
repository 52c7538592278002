#include "tests/unit/weights/staging.h"
#include "orchestrator/weights/pin_folder.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "orchestrator/base/file.h"
#include "tests/support/catch.h"

namespace sweep::weights {

namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& content) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  REQUIRE(file.good());
}

}  // namespace

Rules rules_of(const diag::Diagnostics& findings) {
  Rules rules;
  for (const auto& finding : findings.items()) rules.emplace(diag::rule_info(finding.rule).slug);
  return rules;
}

Rules rules_of(const Report& report) {
  return rules_of(report.findings);
}

std::string messages_of(const diag::Diagnostics& findings) {
  std::string all;
  for (const auto& finding : findings.items()) all += finding.message + "\n";
  return all;
}

std::string messages_of(const Report& report) {
  return messages_of(report.findings);
}

FileStatus status_of(const Report& report, const std::string& path) {
  for (const FileReport& file : report.files)
    if (file.path == path) return file.status;
  FAIL("no such file in the report: " << path);
  return FileStatus::kNotChecked;
}

Pin pin_of(const fs::path& dir, const std::string& model) {
  diag::Diagnostics findings;
  auto made = pin_from_dir(dir, {.model = model, .revision = std::nullopt, .generator = "test"}, {}, findings);
  REQUIRE(made.has_value());
  return std::move(*made);
}

fs::path snapshot_of(const fs::path& model_folder, const Pin& pin) {
  return model_folder / "snapshots" / pin.revision;
}

fs::path make_hub_cache(const fs::path& cache, const fs::path& from, const Pin& pin) {
  std::string name = "models--" + pin.model;
  name.replace(name.find('/'), 1, "--");
  const fs::path folder = cache / name;
  const fs::path snapshot = snapshot_of(folder, pin);
  fs::create_directories(folder / "blobs");
  fs::create_directories(snapshot);
  write(folder / "refs" / "main", pin.revision);
  for (const PinnedFile& file : pin.files) {
    const fs::path blob = folder / "blobs" / *file.sha256;
    const fs::path link = snapshot / file.path;
    fs::copy_file(from / file.path, blob, fs::copy_options::overwrite_existing);
    fs::create_directories(link.parent_path());
    fs::create_symlink(blob.lexically_relative(link.parent_path()), link);
  }
  return folder;
}

void write_record(const fs::path& dir, const std::string& path, const std::string& text) {
  write(dir / ".cache" / "huggingface" / "download" / (path + ".metadata"), text);
}

std::string record_text(const std::string& commit, const std::string& etag) {
  return commit + "\n" + etag + "\n4102444800.5\n";
}

void make_local_dir(const fs::path& dir, const Pin& pin) {
  for (const PinnedFile& file : pin.files)
    write_record(dir, file.path, record_text(pin.revision, file.sha256 ? *file.sha256 : *file.git_blob));
}

Pin pin_from_tree(const fs::path& tree_json, const std::string& model, const std::string& revision) {
  Pin pin{.model = model, .revision = revision, .complete = true, .files = {}, .index = {}, .generator = {}};
  const auto text = base::read_file(tree_json);
  REQUIRE(text.has_value());
  for (const nlohmann::json& entry : nlohmann::json::parse(*text)) {
    if (entry.at("type") != "file") continue;
    PinnedFile file{.path = entry.at("path"), .size = entry.at("size"), .sha256 = {}, .git_blob = {}};
    if (entry.contains("lfs"))
      file.sha256 = entry["lfs"].at("oid");
    else
      file.git_blob = entry.at("oid");
    pin.files.push_back(std::move(file));
  }
  std::sort(pin.files.begin(), pin.files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return pin;
}

}  // namespace sweep::weights
