// A pin: which bytes a model consists of at one revision.
#include <fmt/format.h>

#include <map>

#include "orchestrator/diag/rules/schema.h"
#include "orchestrator/schema/kinds.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

// Paths come from a hub and are joined to a local folder.
bool is_safe_path(std::string_view path) {
  if (path.empty() || path.starts_with('/') || path.find('\\') != std::string_view::npos) return false;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    if (end + 1 == path.size()) return false;  // ends with a slash: a folder
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return true;
}
const TextForm kPathInModel{"a path inside the model's folder", is_safe_path,
                            "^(?!\\.{1,2}(/|$))[^/\\\\]+(/(?!\\.{1,2}(/|$))[^/\\\\]+)*$",
                            "paths are relative, with \"/\" and without \".\" or \"..\""};

const ObjectShape& file_shape() {
  static const ObjectShape shape{
      "a pinned file",
      "One file of the model repository.",
      {field<&PinFile::path>("path", text(&kPathInModel), "path inside the repository", Need::kRequired),
       field<&PinFile::size>("size", integer(0).or_null(), "bytes; null where not known", Need::kRequired),
       field<&PinFile::sha256>("sha256", text(&kSha256Form).or_null(), "SHA-256 of the content; null where not known",
                               Need::kRequired),
       field<&PinFile::git_blob>("git_blob", text(&kCommitForm).or_null(),
                                 "git blob id of the content; null where not known", Need::kRequired)}};
  return shape;
}

const ObjectShape& index_shape() {
  static const ObjectShape shape{
      "the index summary",
      "What the model's safetensors index states.",
      {field<&PinIndex::total_size>("total_size", integer(0), "bytes of all tensors", Need::kRequired),
       field<&PinIndex::tensor_count>("tensor_count", integer(0), "number of tensors", Need::kRequired)}};
  return shape;
}

}  // namespace

const ObjectShape& pin_shape() {
  static const ObjectShape shape{
      "a model pin",
      "Every file of a model at one revision.",
      {field<&Pin::schema_version>("schema_version", integer(1, 1), "1", Need::kRequired),
       field<&Pin::model>("model", text(), "model repository", Need::kRequired),
       field<&Pin::revision>("revision", text(&kCommitForm), "commit of the repository", Need::kRequired),
       field<&Pin::complete>("complete", boolean(), "whether every file of the revision is listed with its digest",
                             Need::kRequired),
       field<&Pin::files>("files", list(object(file_shape())), "the files", Need::kRequired),
       field<&Pin::index>("index", object(index_shape()).or_null(), "totals stated by the safetensors index"),
       field<&Pin::generator>("generator", text().or_null(), "what generated the weights, for synthetic models")}};
  return shape;
}

Pin decode_pin(const DocumentPtr& document, std::string path, diag::Diagnostics& out) {
  Pin pin;
  pin.file = std::move(path);
  pin.document = document;
  pin.where = document->root().where;
  Decoder decoder(*document, out);
  decoder.read_object(document->root(), pin_shape(), &pin);
  std::map<std::string, yaml::Range> seen;
  for (size_t i = 0; i < pin.files.size(); ++i) {
    const PinFile& file = pin.files[i];
    if (!file.path) continue;
    const Decoder::Scope files(decoder, "files", file.where);
    const Decoder::Scope scope(decoder, i, file.where);
    if (!seen.emplace(*file.path, file.path.where).second)
      decoder.report(rule::schema_duplicate_name, file.path.where,
                     fmt::format("file \"{}\" is listed twice", *file.path));
    if (pin.complete && *pin.complete && !file.sha256 && !file.git_blob)
      decoder.report(rule::schema_missing_field, file.where,
                     fmt::format("file \"{}\" has no digest in a complete pin", *file.path),
                     "state sha256 or git_blob, or \"complete\": false");
    if (pin.complete && *pin.complete && !file.size)
      decoder.report(rule::schema_missing_field, file.where,
                     fmt::format("file \"{}\" has no size in a complete pin", *file.path),
                     "state its size, or \"complete\": false");
  }
  return pin;
}

}  // namespace sweep::schema
