// Cross-field rules. Each reports all that it finds; none stops another. `views` are the entry's points.
#pragma once

#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/schema/checkout.h"
#include "orchestrator/schema/config.h"
#include "orchestrator/schema/points.h"

namespace sweep::schema {

struct BoundRecipe;

// Rules over the fields of one matrix entry.
void check_entry(const MatrixEntry& entry, const std::vector<PointView>& views, diag::Diagnostics& out);

// Acceptance and research-only policy of one entry.
void check_policy(const MatrixEntry& entry, const std::vector<PointView>& views, diag::Diagnostics& out);

// Images named by tag only, once per image and file.
void check_images(const Checkout& checkout, diag::Diagnostics& out);

// Departures from the model as shipped that an entry that is not research-only makes. `bound`: its recipes.
void check_deviations(const MatrixEntry& entry, const std::vector<PointView>& views,
                      const std::vector<BoundRecipe>& bound, diag::Diagnostics& out);

// Names that must be unique across files.
void check_duplicate_entries(const Checkout& checkout, diag::Diagnostics& out);

// Points that run the same job twice, and points whose results would replace each other.
void check_duplicate_points(const Checkout& checkout, diag::Diagnostics& out);

// The runner file by itself.
void check_runners(const Runners& runners, diag::Diagnostics& out);

// Changelog keys against the matrix: each one of new entries, and one note a file about those of older entries.
void check_changelog_keys(const Checkout& checkout, diag::Diagnostics& out);

// Whether a changelog key, in which "*" matches anything, matches a name.
bool key_matches(std::string_view pattern, std::string_view name);

// A diagnostic about a place in an entry.
diag::Diagnostic finding(diag::RuleId rule, const yaml::Document& document, yaml::Range where, std::string path,
                         std::string message, std::string help = {});

}  // namespace sweep::schema
