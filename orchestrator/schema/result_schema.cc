// result.json, schema version 1: everything that is known about one measured point. Written by orchestrator/report/;
// what the stages found themselves (engine, weights, kernels, power, provenance) may hold more than is described here.
#include "orchestrator/diag/rules/result.h"
#include "orchestrator/schema/kinds.h"
#include "orchestrator/schema/result_file.h"

namespace sweep::schema {

namespace {

constexpr std::array<std::string_view, 1> kKind{"sweepctl-result"};
constexpr std::array<std::string_view, 2> kLoads{"closed-loop", "open-loop"};
constexpr std::array<std::string_view, 2> kArrivals{"fixed", "poisson"};
constexpr std::array<std::string_view, 2> kApis{"completions", "chat"};
constexpr std::array<std::string_view, 3> kReadFrom{"counters", "log-windows", "since-start"};
constexpr std::array<std::string_view, 3> kLaunchers{"local", "container", "external"};

bool is_utc_time(std::string_view text) {
  constexpr std::string_view kLayout = "0000-00-00T00:00:00Z";
  if (text.size() != kLayout.size()) return false;
  for (size_t i = 0; i < text.size(); ++i)
    if (kLayout[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != kLayout[i]) return false;
  return true;
}
const TextForm kUtcTime{"a time in UTC like 2030-01-31T12:00:00Z", is_utc_time,
                        "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"};

Shape count() {
  return integer(0);
}

// A measured number; null where nothing was measured.
Shape measured(double least = -std::numeric_limits<double>::infinity()) {
  Shape shape = number(least).or_null();
  shape.json_number = true;
  return shape;
}

template <auto Member>
Field required(std::string_view name, Shape shape, std::string_view prose) {
  return field<Member>(name, std::move(shape), prose, Need::kRequired);
}
Field stated(std::string_view name, Shape shape, std::string_view prose) {
  return unbound(name, std::move(shape), prose, Need::kRequired);
}

const ObjectShape& tool_shape() {
  static const ObjectShape shape{
      "the tool",
      "Who wrote the result.",
      {stated("name", text(), "name of the program"), stated("version", text(), "its version")}};
  return shape;
}

const ObjectShape& point_shape() {
  static const ObjectShape shape{
      "the point of a result",
      "What was measured.",
      {stated("job_id", text(), "hash of the job's canonical fields"), stated("model", text(), "model repository"),
       stated("model_prefix", any_text(), "short name of the model"),
       required<&ResultPoint::revision>("revision", any_text(), "commit of the repository"),
       stated("image", any_text(), "container image; empty where none is used"),
       stated("precision", any_text(), "number format of the weights"), stated("framework", text(), "the engine"),
       stated("runner", any_text(), "label of the runner"), stated("gpus", count(), "GPUs of the point; 0 on a CPU"),
       stated("tp", integer(1), "tensor-parallel size"), stated("pp", integer(1), "pipeline-parallel size"),
       stated("ep", integer(1), "expert-parallel size"), stated("dp_attn", boolean(), "data-parallel attention"),
       stated("spec_decoding", any_text(), "speculative decoding method"),
       stated("recipe", any_text(), "recipe file; empty where there is none")}};
  return shape;
}

const ObjectShape& engine_shape() {
  static const ObjectShape shape{
      "the engine of a result",
      "What served the requests, and what it says of itself.",
      {unbound("name", text(), "sglang, vllm, trtllm, atom, embedded"),
       unbound("version", free_form(), "as the engine reports it; null where it does not"),
       unbound("launcher", choice(kLaunchers), "external: a server that was already up"),
       unbound("base_url", text(), "where it answered"),
       unbound("command", text().or_null(), "its command line, quoted for a shell; null where it was already up"),
       unbound("server_info", free_form(), "what the server says of itself")},
      {},
      true};
  return shape;
}

const ObjectShape& condition_shape() {
  static const ObjectShape shape{
      "a condition",
      "One condition of a valid result, decided.",
      {required<&ResultCondition::rule>("rule", text(), "`sweepctl explain RULE` says what it means"),
       required<&ResultCondition::outcome>("outcome", choice_of<ConditionOutcome>(), "the decision"),
       required<&ResultCondition::text>("text", text(), "what was found")}};
  return shape;
}

const ObjectShape& workload_shape() {
  using W = ResultWorkload;
  static const ObjectShape shape{
      "the workload",
      "The load that was put on the engine.",
      {required<&W::isl>("isl", integer(1), "prompt tokens of a request"),
       required<&W::osl>("osl", integer(1), "output tokens of a request"),
       required<&W::concurrency>("concurrency", integer(1), "requests in flight"),
       stated("load", choice(kLoads),
              "closed-loop: a request is sent when another has ended; open-loop: on a schedule, answered or not"),
       unbound("request_rate", measured(0), "of an open loop: requests per second; null in closed loop"),
       unbound("arrivals", choice(kArrivals).or_null(), "of an open loop: at equal intervals, or a Poisson process"),
       unbound("api", choice(kApis), "completions: prompts are token ids; chat: text, counted by the server"),
       unbound("template_tokens", count().or_null(), "of chat: tokens of each prompt that the server adds"),
       required<&W::requests>("requests", count(), "planned requests, without warm-up"),
       required<&W::measured_requests>("measured_requests", count(), "requests of the measured window"),
       required<&W::failed_requests>("failed_requests", count(), "those of them without a complete reply"),
       required<&W::warmup_requests>("warmup_requests", count(), "requests before the window"),
       unbound("most_in_flight", count(), "measured requests at one time, as they were sent and ended"),
       required<&W::prompt_tokens>("prompt_tokens", count(), "prompt tokens of all measured requests"),
       required<&W::output_tokens>("output_tokens", count(), "output tokens of all measured requests"),
       stated("seed", number(0), "of the prompts, the engine and the gate; an integer below 2^64")}};
  return shape;
}

const ObjectShape& window_shape() {
  static const ObjectShape shape{
      "a decode window",
      "Verification steps between two reports of the engine.",
      {required<&ResultWindow::steps>("steps", count().or_null(),
                                      "verification steps; null where the log does not say"),
       required<&ResultWindow::accepted>("accepted", count().or_null(),
                                         "draft tokens accepted in them; null where the log does not say"),
       required<&ResultWindow::acceptance_length>("acceptance_length", measured(1), "1 + accepted / steps")}};
  return shape;
}

const ObjectShape& acceptance_of_result_shape() {
  using A = ResultAcceptance;
  static const ObjectShape shape{
      "the acceptance of a result",
      "Acceptance length as asked for and as read back from the engine: 1 + accepted / steps over the measured window.",
      {required<&A::source>("source", choice_of<AcceptanceSource>(), "where the requested length comes from"),
       required<&A::draft_tokens>("draft_tokens", count(), "draft tokens per verification step"),
       required<&A::requested>("requested", measured(1), "null where acceptance is measured without control"),
       required<&A::realised>("realised", measured(1), "null where the engine does not tell"),
       unbound("read_from", choice(kReadFrom).or_null(), "what the realised length was taken from"),
       required<&A::tolerance>("tolerance", measured(0), "how far the two may differ"),
       required<&A::steps>("steps", count().or_null(), "verification steps"),
       required<&A::accepted>("accepted", count().or_null(), "draft tokens accepted in them"),
       required<&A::accepted_per_position>("accepted_per_position", list(count()),
                                           "accepted drafts by position, where the engine tells"),
       required<&A::windows>("windows", list(object(window_shape())), "the decode windows of the engine's log")}};
  return shape;
}

const ObjectShape& distribution_shape() {
  using D = ResultDistribution;
  static const ObjectShape shape{
      "a distribution",
      "A percentile needs at least one value expected above it: p90 of fewer than 10 and p99 of fewer than 100 are "
      "null.",
      {required<&D::mean>("mean", measured(0), "mean"),
       required<&D::stddev>("stddev", measured(0), "standard deviation; null for a single sample"),
       required<&D::min>("min", measured(0), "smallest"), required<&D::max>("max", measured(0), "largest"),
       required<&D::p50>("p50", measured(0), "median"), required<&D::p90>("p90", measured(0), "90th percentile"),
       required<&D::p99>("p99", measured(0), "99th percentile"), required<&D::count>("count", count(), "samples")}};
  return shape;
}

const ObjectShape& latency_shape() {
  using L = ResultLatency;
  static const ObjectShape shape{
      "the latencies",
      "In milliseconds, over the measured requests.",
      {required<&L::ttft>("ttft", object(distribution_shape()), "time to first token"),
       required<&L::tpot>("tpot", object(distribution_shape()), "time per output token, a value a request"),
       required<&L::itl>("itl", object(distribution_shape()), "inter-token latency, a value a token"),
       required<&L::inter_chunk>("inter_chunk", object(distribution_shape()), "gap between verification steps"),
       required<&L::e2el>("e2el", object(distribution_shape()), "end-to-end latency"),
       unbound("send_delay", object(distribution_shape()),
               "from when a request was due to when it was sent; part of TTFT and end-to-end latency")}};
  return shape;
}

const ObjectShape& throughput_shape() {
  static const ObjectShape shape{"the throughput",
                                 "Over the measured window.",
                                 {stated("output_tokens_per_second", measured(0), "output tokens"),
                                  stated("total_tokens_per_second", measured(0), "prompt and output tokens"),
                                  stated("requests_per_second", measured(0), "completed requests"),
                                  stated("window_seconds", measured(0), "length of the window")}};
  return shape;
}

const ObjectShape& staged_file_shape() {
  static const ObjectShape shape{
      "a verified file",
      "One file of the model as staged.",
      {stated("path", text(), "path inside the model's folder"), stated("size", count().or_null(), "bytes as found"),
       stated("sha256", text(&kSha256Form).or_null(), "SHA-256 as found"),
       stated("status", text(), "ok, missing, size-mismatch, hash-mismatch, ..."),
       unbound("git_blob", text(&kCommitForm).or_null(), "git blob id as found, where it was computed"),
       unbound("proof", text(), "hashed, cached (hashed before and unchanged since) or none"),
       unbound("stamp", free_form(), "device, inode and times of the file when its content was read"),
       unbound("expected_size", count(), "bytes by the pin, where others were found"),
       unbound("expected_sha256", text(&kSha256Form), "SHA-256 by the pin, where another was found"),
       unbound("expected_git_blob", text(&kCommitForm), "git blob id by the pin, where another was found")}};
  return shape;
}

const ObjectShape& agreeing_host_shape() {
  static const ObjectShape shape{
      "an agreeing host",
      "One of the hosts whose reports were compared.",
      {stated("host", text(), "its name"), stated("verdict", text(), "agrees, differs or not verified"),
       unbound("report", text(), "the file that the report came from"),
       unbound("from_cache", boolean(), "whether some of its files were not read again")},
      {},
      true};
  return shape;
}

const ObjectShape& agreement_shape() {
  static const ObjectShape shape{
      "the agreement of hosts",
      "Whether the hosts that take part in the run hold the same weights.",
      {required<&ResultAgreement::agreed>("agreed", boolean(), "they do"),
       stated("hosts", list(object(agreeing_host_shape()), 2), "this host first"),
       unbound("hosts_from_cache", count(), "hosts of which some files were not read again")},
      {},
      true};
  return shape;
}

const ObjectShape& weights_shape() {
  static const ObjectShape shape{
      "the weights of a result",
      "The report of their verification against the pin.",
      {field<&ResultWeights::verified>("verified", boolean(), "everything is there, pinned and right"),
       field<&ResultWeights::revision>("revision", any_text(), "commit that the pin is of"),
       unbound("model", any_text(), "model repository"), unbound("pin", any_text(), "the pin file"),
       unbound("folder", any_text(), "where the files are staged"),
       unbound("files", list(object(staged_file_shape())), "the files"),
       unbound("bytes", count(), "bytes that were hashed"),
       unbound("bytes_cached", count(), "bytes of files that were hashed before and are unchanged since"),
       unbound("host", text().or_null(), "where they were verified"),
       unbound("layout", text(), "plain, hub-cache or local-dir"),
       unbound("pin_sha256", text(&kSha256Form).or_null(), "SHA-256 of the pin's canonical text"),
       field<&ResultWeights::agreement>("agreement", object(agreement_shape()).or_null(),
                                        "with the reports of the other hosts; null where none was given"),
       unbound("errors", count(), "findings that are errors"),
       unbound("warnings", count(), "findings that are warnings")},
      {},
      true};
  return shape;
}

const ObjectShape& gate_shape() {
  static const ObjectShape shape{
      "the kernel gate",
      "FP64 oracle on output and LSE, padded twin bit by bit, run against run.",
      {unbound("verdict", text(), "pass or fail"), unbound("cells", count(), "cases that were compared"),
       unbound("seed", number(0), "of the cases; an integer below 2^64"),
       unbound("report", text(), "file of the bundle with each cell")},
      {},
      true};
  return shape;
}

const ObjectShape& kernels_shape() {
  static const ObjectShape shape{
      "the kernels of a result",
      "The library that was built and gated, and that the bundled engine loaded.",
      {unbound("arch", text(), "cpu, sm_90a, sm_100a, sm_103a"),
       unbound("content_id", text(), "name of the build, from its sources and compiler"),
       unbound("library", text(), "the library"), unbound("library_sha256", text(&kSha256Form), "its digest"),
       unbound("baseline", text(), "the padded build of the same sources"),
       unbound("baseline_sha256", text(&kSha256Form), "its digest"),
       unbound("source_sha256", text(&kSha256Form), "digest of the sources"),
       unbound("compiler", text(), "what compiled it"),
       unbound("device_compiler", text().or_null(), "what compiled its GPU code; null for cpu"),
       unbound("hardware", text(), "what of the architecture this version of the kernels has been run on"),
       unbound("gate", object(gate_shape()), "how it was gated"),
       unbound("used_by_engine", boolean(), "false: the engine's attention runs through kernels of its own")},
      {},
      true};
  return shape;
}

const ObjectShape& gpu_of_power_shape() {
  static const ObjectShape shape{
      "a GPU of the power",
      "What was sampled of one GPU inside the window.",
      {unbound("gpu", text(), "its name"), unbound("samples", count(), "with a power value"),
       unbound("samples_without_value", count(), "where the driver gave none"),
       unbound("longest_gap_s", number(0), "between two samples, in seconds"),
       unbound("energy_j", number(0).or_null(), "by the trapezoid rule over exactly the window"),
       unbound("counter_energy_j", number(0).or_null(), "by the driver's energy counter"),
       unbound("clock_start", number(0).or_null(), "SM clock in MHz as the window begins"),
       unbound("clock_end", number(0).or_null(), "SM clock in MHz as the window ends"),
       unbound("drop_pct", number().or_null(), "how far the SM clock fell, in percent"),
       unbound("clock_decays", boolean().or_null(), "it fell steadily"),
       unbound("throttle_reasons", text().or_null(), "all bits of NVML's clocks event reasons that were seen")},
      {},
      true};
  return shape;
}

const ObjectShape& power_shape() {
  static const ObjectShape shape{
      "the power of a result",
      "GPU power over the measured window.",
      {stated("measured", boolean(), "whether there are samples"),
       unbound("reason", text().or_null(), "why there are none"),
       unbound("valid", boolean(), "whether energy may be claimed"), unbound("reasons", list(text()), "why not"),
       unbound("file", text(), "the samples"),
       unbound("instant_power", boolean(), "of the moment; otherwise the driver's average"),
       unbound("window_s", number(0).or_null(), "length of the window in seconds"),
       unbound("energy_j_per_gpu", list(number(0)).or_null(), "energy of each GPU in joules"),
       unbound("total_energy_j", number(0).or_null(), "of all GPUs"),
       unbound("avg_total_power_w", number(0).or_null(), "energy over the window"),
       unbound("avg_power_per_gpu_w", number(0).or_null(), "the same for each GPU"),
       unbound("joules_per_output_token", number(0).or_null(), "energy of all GPUs"),
       unbound("clock_start", number(0).or_null(), "SM clock in MHz as the window begins"),
       unbound("clock_end", number(0).or_null(), "SM clock in MHz as the window ends"),
       unbound("drop_pct", number().or_null(), "how far the SM clock fell, in percent"),
       unbound("clock_decays", boolean().or_null(), "it fell steadily"),
       unbound("throttling", any_text().or_null(), "names of slowdowns"),
       unbound("gpus", list(object(gpu_of_power_shape())), "each GPU")},
      {},
      true};
  return shape;
}

const ObjectShape& checkout_of_result_shape() {
  static const ObjectShape shape{"the checkout of a result",
                                 "The revision of this repository that measured.",
                                 {stated("commit", text(&kCommitForm), "commit"),
                                  stated("clean", boolean(), "whether no tracked file was changed")}};
  return shape;
}

const ObjectShape& provenance_shape() {
  using P = ResultProvenance;
  static const ObjectShape shape{
      "the provenance of a result",
      "When, where and from what it was measured.",
      {field<&P::measured_from>("measured_from", text(&kUtcTime), "begin of the measured window, UTC"),
       field<&P::measured_to>("measured_to", text(&kUtcTime), "its end, UTC"),
       unbound("host", free_form(), "the machine"),
       unbound("checkout", object(checkout_of_result_shape()).or_null(), "null outside a git checkout"),
       unbound("job", free_form(), "the job as planned")},
      {},
      true};
  return shape;
}

}  // namespace

const ObjectShape& result_shape() {
  using R = ResultFile;
  static const ObjectShape shape{
      "a result",
      "Everything that is known about one measured point. What was not measured is null.",
      {stated("schema_version", integer(1, 1), "version of this format"),
       stated("kind", choice(kKind), "what the file is"),
       stated("tool", object(tool_shape()), "who wrote it"),
       required<&R::entry>("entry", text(), "key of the matrix entry"),
       required<&R::point>("point", object(point_shape()), "what was measured"),
       stated("engine", object(engine_shape()).or_null(), "what served the requests"),
       required<&R::valid>("valid", boolean(), "the verdict: whether every condition holds"),
       required<&R::reasons>("reasons", list(text()), "text of each failed condition"),
       required<&R::conditions>("conditions", list(object(condition_shape())), "each condition, decided"),
       required<&R::research_only>("research_only", boolean(), "never an official result"),
       required<&R::authorization>("authorization", any_text(), "who authorised what"),
       required<&R::deviations>("deviations", list(text()), "every departure from the model as shipped"),
       stated("scope", list(text()), "what the figures do not cover"),
       required<&R::workload>("workload", object(workload_shape()), "the load"),
       required<&R::acceptance>("acceptance", object(acceptance_of_result_shape()), "acceptance length"),
       required<&R::latency_ms>("latency_ms", object(latency_shape()), "latencies in milliseconds"),
       stated("throughput", object(throughput_shape()), "tokens and requests per second"),
       required<&R::weights>("weights", object(weights_shape()).or_null(), "how the weights were verified"),
       stated("kernels", object(kernels_shape()).or_null(), "which kernels were used"),
       stated("power", object(power_shape()), "GPU power"),
       required<&R::provenance>("provenance", object(provenance_shape()).or_null(), "when, where, from what")},
      {{FieldRule::Kind::kNeeds,
        diag::rule::result_research,
        {{{"authorization"}, {"deviations"}}},
        {"research_only", "true"}},
       {FieldRule::Kind::kExcludes, diag::rule::result_verdict, {{{"reasons"}}}, {"valid", "true"}},
       {FieldRule::Kind::kNeeds, diag::rule::result_verdict, {{{"reasons"}}}, {"valid", "false"}}}};
  return shape;
}

void decode_result(const DocumentPtr& document, diag::Diagnostics& out) {
  ResultFile result;
  result.document = document;
  result.where = document->root().where;
  const size_t before = out.items().size();
  Decoder decoder(*document, out);
  decoder.read_object(document->root(), result_shape(), &result);
  if (out.items().size() == before) check_result(result, out);
}

}  // namespace sweep::schema
