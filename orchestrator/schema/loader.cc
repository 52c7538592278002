#include "orchestrator/schema/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/schema.h"
#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/schema/acceptance_rules.h"
#include "orchestrator/schema/binding_rules.h"
#include "orchestrator/schema/capability_rules.h"
#include "orchestrator/schema/changelog_file.h"
#include "orchestrator/schema/recipe_rules.h"
#include "orchestrator/schema/row_schema.h"
#include "orchestrator/schema/rules.h"
#include "orchestrator/yaml/parse.h"

namespace sweep::schema {

namespace {

namespace fs = std::filesystem;
namespace rule = diag::rule;

// JSON Schemas for editors lie beside the files that they describe.
std::string all_kinds() {
  std::string result;
  for (const std::string_view name : ChoiceNames<FileKind>::kNames)
    result += fmt::format("{}{}", result.empty() ? "" : ", ", name);
  return result;
}

void check_pin_completeness(const Pin& pin, diag::Diagnostics& out) {
  if (!pin.complete || *pin.complete) return;
  const auto open = std::count_if(pin.files.begin(), pin.files.end(),
                                  [](const PinFile& file) { return !file.sha256 && !file.git_blob; });
  diag::Diagnostic diagnostic = finding(
      rule::weights_pin_incomplete, *pin.document, pin.complete.where, "complete",
      fmt::format("the pin of \"{}\" is incomplete: {} of {} listed files have no digest", pin.model.value, open,
                  pin.files.size()),
      "complete it with `sweepctl weights pin`; until then its weights cannot be verified and a run is refused");
  diagnostic.severity = diag::Severity::kWarning;  // an error only for a run, which must verify
  out.add(std::move(diagnostic));
}

}  // namespace

Loader::Loader(fs::path root) {
  checkout_.root = root.empty() ? fs::path(".") : std::move(root);  // files can be named without a checkout
  std::error_code ignored;
  is_checkout_ = fs::is_directory(checkout_.root / "matrix", ignored);
}

bool Loader::is_outside_root(const fs::path& path) const {
  if (!is_checkout_) return true;  // files checked alone, or those of another project's checkout
  const fs::path relative =
      fs::absolute(path).lexically_normal().lexically_relative(fs::absolute(checkout_.root).lexically_normal());
  return relative.empty() || *relative.begin() == "..";
}

std::string Loader::path_in_root(const fs::path& path) const {
  if (is_outside_root(path)) return path.generic_string();
  return fs::absolute(path)
      .lexically_normal()
      .lexically_relative(fs::absolute(checkout_.root).lexically_normal())
      .generic_string();
}

void Loader::load(const fs::path& path, std::string name, Role role, std::optional<FileKind> kind) {
  if (!loaded_.insert(fs::absolute(path).lexically_normal()).second) return;
  const yaml::Limits limits;
  auto text = base::read_file(path, limits.bytes);
  if (!text) {
    const bool too_large = text.error().error_number == EFBIG;
    if (role == Role::kContext) return;
    targets_.insert(name);
    ++checkout_.files;
    checkout_.diagnostics.add(
        diag::make_at(too_large ? rule::file_too_large : rule::file_unreadable, {name},
                      too_large ? fmt::format("the file is larger than {} bytes", limits.bytes) : text.error().text()));
    return;
  }
  add({std::move(name), path_in_root(path), *std::move(text), kind, is_outside_root(path)}, role);
}

void Loader::add(SourceText source, Role role) {
  const yaml::Limits limits;
  diag::Diagnostics found;
  if (role == Role::kTarget && targets_.insert(source.name).second) ++checkout_.files;
  checkout_.sources.add(source.name, source.text);
  const bool json = fs::path(source.path).extension() == ".json";
  const DocumentPtr document = json ? yaml::parse_json(source.name, std::move(source.text), found, limits)
                                    : yaml::parse(source.name, std::move(source.text), found, limits);
  if (document != nullptr) {
    const Place place{source.path, source.outside_root || !is_checkout_, role};
    const auto kind = source.kind ? source.kind : find_kind(document->root(), place.path);
    if (kind) {
      decode(document, *kind, place, found);
    } else {
      diag::Diagnostic d = diag::make_at(rule::schema_unknown_kind, {source.name},
                                         "the kind of this file cannot be told from its content",
                                         fmt::format("state it with --kind, one of {}", all_kinds()));
      if (in_folder_) d.severity = diag::Severity::kWarning;  // other tools have files in the same folders
      found.add(std::move(d));
    }
  }
  if (role == Role::kTarget) checkout_.diagnostics.add_all(found);
}

void Loader::decode(const DocumentPtr& document, FileKind kind, const Place& place, diag::Diagnostics& out) {
  const bool target = place.role == Role::kTarget;
  switch (kind) {
    case FileKind::kMatrix:
      for (MatrixEntry& entry : decode_matrix(document, out)) {
        entry.outside_root = place.outside_root;
        if (target) target_entries_.insert(entry.key);
        (target ? checkout_.entries : context_entries_).push_back(std::move(entry));
      }
      return;
    case FileKind::kRunners: {
      Runners runners = decode_runners(document, out);
      runners.outside_root = place.outside_root;
      if (checkout_.runners.document == nullptr || (target && !runners_are_target_))
        checkout_.runners = std::move(runners);
      else if (target)
        out.add(diag::make_at(rule::schema_duplicate_name, {document->name()}, "a second runner file",
                              fmt::format("{} is in use already", checkout_.runners.document->name())));
      runners_are_target_ = runners_are_target_ || target;
      return;
    }
    case FileKind::kRecipe:
      if (target) target_recipes_.push_back(place.path);
      checkout_.recipes.push_back(decode_recipe(document, place.path, out));
      return;
    case FileKind::kAcceptance:
      for (AcceptanceCurve& curve : decode_acceptance(document, out)) checkout_.curves.push_back(std::move(curve));
      return;
    case FileKind::kChangelog: {
      std::vector<ChangelogEntry> entries = decode_changelog(document, out);
      check_changelog_text(*document, out);
      if (target)
        for (ChangelogEntry& entry : entries) checkout_.changelog.push_back(std::move(entry));
      return;
    }
    case FileKind::kPin: {
      Pin pin = decode_pin(document, place.path, out);
      check_pin_completeness(pin, out);
      checkout_.pins.push_back(std::move(pin));
      return;
    }
    case FileKind::kCluster:
      decode_cluster(document, out);
      return;
    case FileKind::kRow:
      decode_rows(document, out);
      return;
    case FileKind::kResult:
      decode_result(document, out);
      return;
  }
}

void Loader::load_folder(const fs::path& folder, const std::string& name, Role role, std::optional<FileKind> kind) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && it != end; it.increment(error)) {
    std::error_code ignored;  // a dangling link is no regular file
    if (it->is_regular_file(ignored) && is_configuration_file(it->path())) files.push_back(it->path());
  }
  if (error && role == Role::kTarget)
    checkout_.diagnostics.add(
        diag::make_at(rule::file_unreadable, {name}, fmt::format("cannot list the folder: {}", error.message())));
  // Of the documents in and below a run folder only the result is meant for others to check; it holds what the rest
  // says.
  std::set<fs::path> bundles;
  for (const fs::path& file : files)
    if (file.filename() == "result.json") bundles.insert(file.parent_path());
  const auto is_in_bundle = [&](const fs::path& file) {
    for (fs::path above = file.parent_path(); above.has_relative_path(); above = above.parent_path())
      if (bundles.contains(above)) return true;
    return false;
  };
  if (!bundles.empty())
    std::erase_if(files, [&](const fs::path& file) {
      return file.extension() == ".json" && file.filename() != "result.json" && is_in_bundle(file);
    });
  std::sort(files.begin(), files.end());
  in_folder_ = true;
  for (const fs::path& file : files) {
    const std::string below = file.lexically_relative(folder).generic_string();
    load(file, name.empty() ? below : name + "/" + below, role, kind);
  }
  in_folder_ = false;
}

void Loader::load_root(Role role) {
  if (role == Role::kTarget) whole_root_ = true;
  if (checkout_.root.empty()) return;
  for (const char* folder : {"matrix", "recipes", "changelog"}) {
    std::error_code ignored;
    if (fs::is_directory(checkout_.root / folder, ignored)) load_folder(checkout_.root / folder, folder, role);
  }
}

bool Loader::is_about_target(const diag::Diagnostic& d) const {
  const auto is_target = [this](const std::optional<diag::SourceSpan>& where) {
    return where && targets_.contains(where->file);
  };
  return is_target(d.where) ||
         std::any_of(d.notes.begin(), d.notes.end(), [&](const diag::Note& note) { return is_target(note.where); });
}

// Someone who names matrix files and one recipe means that they belong together.
void Loader::bind_named_recipe() {
  if (whole_root_ || target_recipes_.size() != 1) return;
  const RecipeFile* recipe = checkout_.find_recipe(target_recipes_.front());
  if (recipe == nullptr || recipe->find("") == nullptr) return;
  for (const MatrixEntry& entry : checkout_.entries)
    if (entry.recipe.stated()) return;
  for (MatrixEntry& entry : checkout_.entries) entry.recipe = {recipe->path, entry.key_where, true};
}

void Loader::check_entries(Settings settings, diag::Diagnostics& out) {
  BindingRules bindings(checkout_, out);
  AcceptanceRules acceptance(checkout_.curves, out);
  for (const MatrixEntry& entry : checkout_.entries) {
    const bool with_settings = settings == Settings::kAll || (settings == Settings::kOwn && !entry.outside_root);
    const std::vector<PointView> views = points_of(entry);
    check_entry(entry, views, out);
    check_policy(entry, views, out);
    const std::vector<BoundRecipe> bound = bindings.check(entry, views, with_settings);
    acceptance.check(views, bound, with_settings);
    check_capabilities(entry, views, bound, out);
    check_deviations(entry, views, bound, out);
  }
  bindings.finish();
  for (const RecipeFile& recipe : checkout_.recipes) {
    check_recipe(recipe, out);
    check_capabilities(recipe, out);
    acceptance.check(recipe);
  }
}

Checkout Loader::finish(Settings settings) {
  check_duplicate_entries(checkout_, checkout_.diagnostics);
  bind_named_recipe();
  for (MatrixEntry& entry : context_entries_)
    if (!target_entries_.contains(entry.key)) checkout_.entries.push_back(std::move(entry));
  diag::Diagnostics found;
  check_entries(settings, found);
  check_images(checkout_, found);
  check_duplicate_points(checkout_, found);
  check_runners(checkout_.runners, found);
  check_curves(checkout_.curves, found);
  check_changelog_keys(checkout_, found);
  for (const diag::Diagnostic& d : found.items())
    if (is_about_target(d)) checkout_.diagnostics.add(d);
  checkout_.diagnostics.normalise();
  return std::move(checkout_);
}

}  // namespace sweep::schema
