// Rows of the job matrix: what `plan` prints and a job is started from.
#pragma once

#include <cstddef>

#include "orchestrator/schema/config.h"
#include "orchestrator/schema/shape.h"

namespace sweep::schema {

// The kind of a row is told from its fields: workers make it multi-node, offloading and a duration make it agentic.
bool is_agentic_row(const yaml::Node& row);
bool is_multi_node_row(const yaml::Node& row);
const ObjectShape& row_shape(const yaml::Node& row);

// Checks one row, or a list of rows as `plan full-sweep` prints it. Returns their number.
size_t decode_rows(const DocumentPtr& document, diag::Diagnostics& out);

}  // namespace sweep::schema
