// The hub's API, a function for each address that is asked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/hub/connection.h"
#include "orchestrator/hub/listing.h"
#include "orchestrator/hub/model_id.h"

namespace sweep::hub {

// GET /api/models/MODEL/revision/REVISION: the commit that a branch or tag is now, and the model's current name.
diag::Result<ModelRevision> ask_commit(Connection& connection, const ModelRevision& wanted);

struct Listing {
  std::string model;              // the current name, if the hub led there
  std::vector<ListedFile> files;  // by path
};

// GET /api/models/MODEL/tree/COMMIT?recursive=true, page after page. Nothing after an error.
std::optional<Listing> ask_tree(Connection& connection, const ModelRevision& wanted, diag::Diagnostics& diagnostics);

// POST /api/models/MODEL/paths-info/COMMIT: what is known of these paths, by path; unknown ones are left out. Nothing
// after an error.
std::optional<std::vector<ListedFile>> ask_paths(Connection& connection, const ModelRevision& wanted,
                                                 std::span<const std::string> paths, diag::Diagnostics& diagnostics);

struct FileHead {
  std::string commit;
  std::string etag;  // without W/ and quotes
  std::optional<uint64_t> size;
};

// HEAD /MODEL/resolve/COMMIT/PATH: the hub's own headers, not those of the host that stores large files.
diag::Result<FileHead> ask_head(Connection& connection, const ModelRevision& wanted, const std::string& path);

// GET /MODEL/resolve/COMMIT/PATH, wherever it leads: the content, which is at most `max_bytes`.
diag::Result<std::string> ask_content(Connection& connection, const ModelRevision& wanted, const std::string& path,
                                      uint64_t max_bytes);

// The target of `rel="next"` in a Link header (RFC 8288); nothing if there is none.
std::optional<std::string> next_link(std::string_view header);

// ETag without `W/` and quotes.
std::string bare_etag(std::string_view header);

}  // namespace sweep::hub
