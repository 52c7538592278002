// A pin: which bytes a model consists of at one revision.
#include <fmt/format.h>

#include <map>

#include "orchestrator/diag/rules/schema.h"
#include "orchestrator/schema/kinds.h"
#include "orchestrator/schema/model_path.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

// Paths come from a hub and are joined to a local folder.
bool is_safe_path(std::string_view path) {
  return !unsafe_reason(path);
}
const TextForm kPathInModel{
    "a path inside the model's folder", is_safe_path,
    "^(?![A-Za-z]:)(?!\\.{1,2}(/|$))[^/\\\\\\x00-\\x1f\\x7f]+(/(?!\\.{1,2}(/|$))[^/\\\\\\x00-\\x1f\\x7f]+)*$",
    "paths are relative, with \"/\" and without \".\", \"..\", back-slashes, drive letters or control characters"};

const TextForm kFileSha256{kSha256Form.name, kSha256Form.matches, kSha256Form.pattern,
                           "40 digits are no SHA-256; those of a git blob id go into \"git_blob\""};
const TextForm kGitBlob{"a git blob id of 40 hexadecimal digits in lower case", kCommitForm.matches,
                        kCommitForm.pattern, "the SHA-256 of a file goes into \"sha256\""};

Shape sha256_text() {
  return text(&kFileSha256).or_null();
}
Shape git_blob_text() {
  return text(&kGitBlob).or_null();
}

const ObjectShape& file_shape() {
  static const ObjectShape shape{
      "a pinned file",
      "One file of the model repository.",
      {field<&PinFile::path>("path", text(&kPathInModel), "path inside the repository", Need::kRequired),
       field<&PinFile::size>("size", integer(0).or_null(), "bytes; null where not known", Need::kRequired),
       field<&PinFile::sha256>("sha256", sha256_text(), "SHA-256 of the content; null where not known",
                               Need::kRequired),
       field<&PinFile::git_blob>("git_blob", git_blob_text(), "git blob id of the content; null where not known",
                                 Need::kRequired)}};
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

const ObjectShape& locked_file_shape() {
  static const ObjectShape shape{
      "a locked file",
      "What identifies the content of one file.",
      {field<&PinFile::sha256>("sha256", sha256_text(), "SHA-256 of the content"),
       field<&PinFile::git_blob>("git_blob", git_blob_text(), "git blob id of the content"),
       field<&PinFile::size>("size", integer(0).or_null(), "bytes")},
      {{FieldRule::Kind::kAtLeastOne, rule::schema_missing_field, {{{"sha256"}}, {{"git_blob"}}}}}};
  return shape;
}

void read_locked_files(Decoder& decoder, const yaml::Node& node, const Field& field, void* object) {
  auto& files = static_cast<Pin*>(object)->files;
  decoder.each_named(node, field.shape, [&](const yaml::Entry& entry) {
    PinFile& file = files.emplace_back();
    file.path = {entry.key, entry.key_where, true};
    decoder.read(entry.value, *field.shape.item, file);
    if (entry.value.is_map() && !file.sha256.stated() && !file.git_blob.stated())
      decoder.report(rule::schema_missing_field, entry.key_where, fmt::format("file \"{}\" has no digest", entry.key),
                     "state its sha256 or git_blob");
  });
}

void check_listed_twice(Decoder& decoder, const Pin& pin) {
  std::map<std::string_view, yaml::Range> seen;
  for (size_t i = 0; i < pin.files.size(); ++i) {
    const PinFile& file = pin.files[i];
    if (!file.path || seen.emplace(*file.path, file.path.where).second) continue;
    const Decoder::Scope files(decoder, "files", file.where);
    const Decoder::Scope scope(decoder, i, file.where);
    decoder.report(rule::schema_duplicate_name, file.path.where,
                   fmt::format("file \"{}\" is listed twice", *file.path));
  }
}

void check_complete(Decoder& decoder, const Pin& pin) {
  if (!pin.complete || !*pin.complete) return;
  for (size_t i = 0; i < pin.files.size(); ++i) {
    const PinFile& file = pin.files[i];
    if (!file.path) continue;
    const Decoder::Scope files(decoder, "files", file.where);
    const Decoder::Scope scope(decoder, i, file.where);
    if (!file.sha256.stated() && !file.git_blob.stated())
      decoder.report(rule::schema_missing_field, file.where,
                     fmt::format("file \"{}\" has no digest in a complete pin", *file.path),
                     "state sha256 or git_blob, or \"complete\": false");
    if (!file.size.stated())
      decoder.report(rule::schema_missing_field, file.where,
                     fmt::format("file \"{}\" has no size in a complete pin", *file.path),
                     "state its size, or \"complete\": false");
  }
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

const ObjectShape& lock_shape() {
  static const ObjectShape shape{
      "a lock file",
      "The short form of a pin: what a run is pinned to, as other tools write it. It is read as a pin is, never "
      "written.",
      {field<&Pin::model>("repo", text(), "model repository", Need::kRequired),
       field<&Pin::revision>("revision", text(&kCommitForm), "commit of the repository", Need::kRequired),
       {"files", map(object(locked_file_shape())).named_by(kPathInModel), true,
        "path inside the repository -> digest of the content; a revision alone does not say which bytes are meant",
        read_locked_files}}};
  return shape;
}

const Shape& pin_file_shape() {
  static const Shape shape = either({{{{{"repo"}}}, &lock_shape()}, {{}, &pin_shape()}});
  return shape;
}

Pin decode_pin(const DocumentPtr& document, std::string path, diag::Diagnostics& out) {
  Pin pin;
  pin.file = std::move(path);
  pin.document = document;
  pin.where = document->root().where;
  Decoder decoder(*document, out);
  decoder.read_object(document->root(), Decoder::fields_of(document->root(), pin_file_shape()), &pin);
  check_listed_twice(decoder, pin);
  check_complete(decoder, pin);
  return pin;
}

}  // namespace sweep::schema
