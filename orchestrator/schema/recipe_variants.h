// Recipe files with `base` and overrides: one configuration per variant, before any field is decoded.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/yaml/document.h"

namespace sweep::schema {

// Selector -> tree with the override merged in. A file without `base` gives itself under "". Mappings are merged
// recursively, scalars and lists replaced, null deletes a key. `zip_override_x` gives x[0], x[1], ... from lists of
// equal length at its leaves; a list of one is repeated (NVIDIA/srt-slurm, core/config.py). A variant with `sweep`
// gives one for each combination of the parameters, which stand as {name} in its texts: sweep[0], sweep[1], ... or
// override_x.sweep[0] (core/sweep.py).
std::vector<std::pair<std::string, std::shared_ptr<const yaml::Node>>> expand_variants(const yaml::Document& document,
                                                                                       diag::Diagnostics& out);

}  // namespace sweep::schema
