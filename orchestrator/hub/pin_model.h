// Pins of models that are on a hub: from the hub itself, or from its recorded listing.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/hub/connection.h"
#include "orchestrator/weights/pin.h"

namespace sweep::hub {

// The commit that a branch or tag is now, and the model's current name; what was found is reported (hub/resolved,
// hub/renamed). Nothing after an error.
std::optional<ModelRevision> resolve_commit(Connection& connection, const ModelRevision& wanted,
                                            diag::Diagnostics& diagnostics);

// What is asked for next, for people who wait: "the listing", ...
using OnStep = std::function<void(const std::string&)>;

// The whole listing of the commit; the index of the shards, whose content must be what is listed and whose shards must
// be listed; and the hub's other answers about the same files, which must agree. Everything that is wrong is reported;
// after an error there is no pin. The same commit gives the same pin. The model's name is the current one.
std::optional<weights::Pin> pin_from_hub(Connection& connection, const ModelRevision& wanted, const OnStep& on_step,
                                         diag::Diagnostics& diagnostics);

struct RecordedListing {
  ModelRevision wanted = {};
  std::vector<std::filesystem::path> pages = {};
  std::filesystem::path index = {};  // the index's content; empty: the pin has no totals
};

// The same, as far as it can be told without the hub.
std::optional<weights::Pin> pin_from_listing(const RecordedListing& recorded, diag::Diagnostics& diagnostics);

}  // namespace sweep::hub
