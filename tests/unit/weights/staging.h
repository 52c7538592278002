// Models in the layouts in which they are found on disk, and short ways to read a report.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "orchestrator/weights/pin.h"
#include "orchestrator/weights/report.h"

namespace sweep::weights {

using Rules = std::set<std::string>;

Rules rules_of(const diag::Diagnostics& findings);
Rules rules_of(const Report& report);
std::string messages_of(const diag::Diagnostics& findings);
std::string messages_of(const Report& report);
FileStatus status_of(const Report& report, const std::string& path);

// The pin of a plain folder.
Pin pin_of(const std::filesystem::path& dir, const std::string& model);

// Puts copies of the pinned files of `from` into cache/models--../, with blobs named after their SHA-256. Returns the
// model's folder.
std::filesystem::path make_hub_cache(const std::filesystem::path& cache, const std::filesystem::path& from,
                                     const Pin& pin);
std::filesystem::path snapshot_of(const std::filesystem::path& model_folder, const Pin& pin);

// Writes the download record of one file, and of all pinned files.
void write_record(const std::filesystem::path& dir, const std::string& path, const std::string& text);
std::string record_text(const std::string& commit, const std::string& etag);
void make_local_dir(const std::filesystem::path& dir, const Pin& pin);

// The pin that follows from the hub's listing of a revision (GET /api/models/ID/tree/REVISION?recursive=true).
Pin pin_from_tree(const std::filesystem::path& tree_json, const std::string& model, const std::string& revision);

}  // namespace sweep::weights
