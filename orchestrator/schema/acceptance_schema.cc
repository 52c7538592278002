// Golden acceptance curves: model -> thinking mode -> number of draft tokens -> acceptance length
// (InferenceX, golden_al_distribution/).
#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/diag/rules/schema.h"
#include "orchestrator/schema/kinds.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

constexpr std::array<std::string_view, 2> kModes{"thinking_on", "thinking_off"};

void decode_curve(Decoder& decoder, const yaml::Node& node, AcceptanceCurve& curve) {
  if (!node.is_map()) {
    decoder.check(node, map(number()));
    return;
  }
  for (const yaml::Entry& entry : node.entries) {
    const Decoder::Scope scope(decoder, entry.key, entry.key_where);
    yaml::Node key;
    key.kind = yaml::Kind::kScalar;
    key.text = entry.key;
    key.where = entry.key_where;
    const auto drafts = yaml::decode_integer(key);
    if (!drafts || *drafts < 1) {
      decoder.report(rule::schema_wrong_type, entry.key_where,
                     fmt::format("key \"{}\" must be a number of draft tokens, at least 1", entry.key));
      continue;
    }
    Number length;
    decoder.read(entry.value, number(), length);
    if (length && (*length < 1 || *length > static_cast<double>(*drafts) + 1)) {
      decoder.report(rule::acceptance_out_of_range, length.where,
                     fmt::format("acceptance length {} is out of range for {} draft tokens, expected 1 to {}", *length,
                                 *drafts, *drafts + 1));
      continue;
    }
    if (length) curve.lengths.emplace_back(*drafts, length);
  }
}

}  // namespace

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
      decoder.check(model.value, map(map(number())));
      continue;
    }
    for (const yaml::Entry& mode : model.value.entries) {
      const Decoder::Scope mode_scope(decoder, mode.key, mode.key_where);
      if (std::find(kModes.begin(), kModes.end(), mode.key) == kModes.end()) {
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
