#include "orchestrator/pipeline/entries.h"

#include "orchestrator/plan/expand.h"
#include "orchestrator/schema/checkout.h"

namespace sweep::pipeline {

LoadedJobs load_jobs(const std::filesystem::path& root, const EntrySelection& selection,
                     diag::Diagnostics& diagnostics) {
  schema::Checkout checkout = schema::load_checkout(root);
  diagnostics.add_all(checkout.diagnostics);
  plan::Plan plan = plan::expand(checkout, {.entries = selection.entries, .concurrencies = selection.concurrencies});
  diagnostics.add_all(plan.diagnostics);
  return {.jobs = std::move(plan.jobs), .sources = std::move(checkout.sources)};
}

}  // namespace sweep::pipeline
