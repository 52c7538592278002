#include "orchestrator/report/inspection.h"

#include "orchestrator/diag/render.h"

namespace sweep::report {

nlohmann::json to_json(const Inspection& inspection) {
  constexpr int kVersion = 1;
  diag::Diagnostics findings = inspection.findings;
  findings.normalise();
  nlohmann::json document = diag::to_json(findings);
  document["schema_version"] = kVersion;
  document["kind"] = inspection.kind;
  if (inspection.values.is_object()) document.update(inspection.values);
  document["valid"] = inspection.valid;
  document["reasons"] = inspection.reasons;
  return document;
}

}  // namespace sweep::report
