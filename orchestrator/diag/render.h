// Diagnostics as text for people, as JSON, as GitHub workflow annotations, and as SARIF.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/diag/source_map.h"

namespace sweep::diag {

struct TextOptions {
  bool colour = false;
  size_t most = 50;  // further diagnostics are counted, not shown
};

// One block per diagnostic, stable and greppable:
//   matrix/x.yaml:12:3: error: unknown field "concurency" [schema/unknown-field]
//    12 |   concurency: [1, 2, 4]
//       |   ^~~~~~~~~~
//       = help: did you mean "concurrency"?
std::string render_text(const Diagnostics& diagnostics, const SourceMap& sources, const TextOptions& options = {});
std::string render_text(const Diagnostic& diagnostic, const SourceMap& sources, const TextOptions& options = {});

// "2 errors, 1 warning"; empty when there is neither.
std::string count_text(const Diagnostics& diagnostics);

// {"diagnostics":[{"severity","rule","message","help","file","line","column","path","notes"}],"errors":N,"warnings":N}
nlohmann::json to_json(const Diagnostics& diagnostics);
nlohmann::json to_json(const Diagnostic& diagnostic);

// Lines `::error file=,line=,col=,title=::message`, worst first. Text from files is escaped: it cannot start another
// workflow command.
std::string render_github(const Diagnostics& diagnostics);

// A SARIF 2.1.0 log of one run. Columns count UTF-16 code units; they are left out where the source line is not known.
// Same diagnostics, same bytes.
std::string render_sarif(const Diagnostics& diagnostics, const SourceMap& sources);

}  // namespace sweep::diag
