#include <array>

#include "orchestrator/schema/kinds.h"

namespace sweep::schema {

const FileShape& file_shape(FileKind kind) {
  static const std::array<FileShape, ChoiceNames<FileKind>::kNames.size()> kShapes{
      {{"matrix entries", "What is measured: a name for each model on a machine, with the points of its search space.",
        matrix_file_shape()},
       {"runner file", "Runner labels, the machines that carry them, and what one node has.", object(runners_shape())},
       {"recipe", "How an engine is started for one deployment, in the format of srt-slurm.", object(recipe_shape()),
        true},
       {"acceptance curves", "Golden acceptance lengths: model, thinking mode, number of draft tokens, length.",
        acceptance_file_shape()},
       {"performance changelog", "Append-only list of changes, each with the matrix entries that it asks to run.",
        changelog_file_shape()},
       {"model pin", "Every file of a model at one revision, with its size and digest.", pin_file_shape()},
       {"cluster file", "Accounts, partitions and aliases of one Slurm cluster, in the format of srt-slurm.",
        object(cluster_shape())},
       {"job-matrix row", "One row of the job matrix, or a list of them, as `sweepctl plan full-sweep` prints it.",
        row_shape(), false, true},
       {"result", "Everything that is known about one measured point.", object(result_shape())}}};
  return kShapes[static_cast<size_t>(kind)];
}

}  // namespace sweep::schema
