// Golden acceptance curves: model -> thinking mode -> number of draft tokens -> acceptance length
// (InferenceX, golden_al_distribution/).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/diag/rules/schema.h"
#include "orchestrator/schema/kinds.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

bool is_draft_count(std::string_view text) {
  return !text.empty() && text.front() != '0' && text.size() <= 9 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}
const TextForm kDraftCount{"a number of draft tokens, at least 1", is_draft_count, "^[1-9][0-9]{0,8}$"};

const Shape& lengths_shape() {
  static const Shape shape = map(number(1).ranged_by_rule()).named_by(kDraftCount);
  return shape;
}

const ObjectShape& modes_shape() {
  static const ObjectShape shape{
      "the curves of a model",
      "Acceptance length by number of draft tokens, per thinking mode.",
      {unbound("thinking_on", lengths_shape(), "number of draft tokens -> acceptance length"),
       unbound("thinking_off", lengths_shape(), "the same without thinking")}};
  return shape;
}

void decode_curve(Decoder& decoder, const yaml::Node& node, AcceptanceCurve& curve) {
  if (!node.is_map()) {
    decoder.check(node, lengths_shape());
    return;
  }
  for (const yaml::Entry& entry : node.entries) {
    const Decoder::Scope scope(decoder, entry.key, entry.key_where);
    if (!kDraftCount.matches(entry.key)) {
      decoder.report(rule::schema_wrong_type, entry.key_where,
                     fmt::format("key \"{}\" must be {}", entry.key, kDraftCount.name));
      continue;
    }
    int64_t drafts = 0;
    std::from_chars(entry.key.data(), entry.key.data() + entry.key.size(), drafts);
    Number length;
    decoder.read(entry.value, *lengths_shape().item, length);
    if (length && (*length < 1 || *length > static_cast<double>(drafts) + 1)) {
      decoder.report(rule::acceptance_out_of_range, length.where,
                     fmt::format("acceptance length {} is out of range for {} draft tokens, expected 1 to {}", *length,
                                 drafts, drafts + 1));
      continue;
    }
    if (length) curve.lengths.emplace_back(drafts, length);
  }
}

}  // namespace

const Shape& acceptance_file_shape() {
  static const Shape shape = map(object(modes_shape()));
  return shape;
}

std::vector<AcceptanceCurve> decode_acceptance(const DocumentPtr& document, diag::Diagnostics& out) {
  std::vector<AcceptanceCurve> curves;
  Decoder decoder(*document, out);
  if (!document->root().is_map()) {
    decoder.report(rule::schema_wrong_type, document->root().where, "an acceptance file must be a mapping of models");
    return curves;
  }
  for (const yaml::Entry& model : document->root().entries) {
    const Decoder::Scope scope(decoder, model.key, model.key_where);
    if (!model.value.is_map()) {
      decoder.check(model.value, *acceptance_file_shape().item);
      continue;
    }
    for (const yaml::Entry& mode : model.value.entries) {
      const Decoder::Scope mode_scope(decoder, mode.key, mode.key_where);
      if (modes_shape().find(mode.key) == nullptr) {
        decoder.report(rule::schema_unknown_field, mode.key_where,
                       fmt::format("unknown thinking mode \"{}\"", mode.key),
                       "allowed here: thinking_off, thinking_on");
        continue;
      }
      AcceptanceCurve& curve = curves.emplace_back();
      curve.model = model.key;
      curve.mode = mode.key;
      curve.where = mode.key_where;
      curve.document = document;
      decode_curve(decoder, mode.value, curve);
    }
  }
  return curves;
}

}  // namespace sweep::schema
