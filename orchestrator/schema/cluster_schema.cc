// The cluster file of srt-slurm: accounts, partitions and aliases of one Slurm cluster
// (NVIDIA/srt-slurm, src/srtctl/core/schema.py).
#include "orchestrator/schema/kinds.h"

namespace sweep::schema {

const ObjectShape& cluster_shape() {
  static const Shape kTexts = map(any_text());
  static const ObjectShape shape{
      "a cluster file",
      "What dispatch to a Slurm cluster needs to know.",
      {unbound("cluster", text(), "name of the cluster"),
       unbound("account", text(), "Slurm account"),
       unbound("partition", text(), "Slurm partition"),
       unbound("time_limit", text(), "time limit of a job"),
       unbound("default_account", text(), "account of jobs that name none"),
       unbound("default_partition", text(), "partition of jobs that name none"),
       unbound("default_time_limit", text(), "time limit of jobs that name none"),
       unbound("gpus_per_node", integer(1), "GPUs of a node"),
       unbound("network_interface", text(), "interface between nodes"),
       unbound("use_gpus_per_node_directive", boolean(), "whether jobs ask for GPUs"),
       unbound("use_segment_sbatch_directive", boolean(), "whether jobs ask for a segment"),
       unbound("use_exclusive_sbatch_directive", boolean(), "whether jobs ask for whole nodes"),
       unbound("use_het_jobs", boolean(), "whether roles are separate components of a job"),
       unbound("default_sbatch_directives", kTexts, "directives of every job"),
       unbound("default_health_check", free_form(), "how long to wait for a server"),
       unbound("srtctl_root", text(), "folder of srt-slurm"),
       unbound("output_dir", text(), "where logs go"),
       unbound("model_paths", kTexts, "alias -> folder of a model"),
       unbound("containers", kTexts, "alias -> container image"),
       unbound("cloud", free_form(), "settings of a cloud provider"),
       unbound("default_mounts", kTexts, "host path -> container path"),
       unbound("default_bash_preamble", text(), "commands before each process"),
       unbound("reporting", free_form(), "where results are reported"),
       unbound("telemetry", free_form(), "power telemetry"),
       unbound("nginx_raise_ulimit", boolean(), "whether the proxy raises its file limit")}};
  return shape;
}

void decode_cluster(const DocumentPtr& document, diag::Diagnostics& out) {
  Decoder decoder(*document, out);
  decoder.read_object(document->root(), cluster_shape(), nullptr);
}

}  // namespace sweep::schema
