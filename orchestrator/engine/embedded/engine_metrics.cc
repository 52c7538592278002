#include "orchestrator/engine/embedded/engine_metrics.h"

#include <fmt/format.h>

#include <string_view>

namespace sweep::engine::embedded {

namespace {

// Label values may hold anything: backslash, quote and line feed are escaped.
std::string escaped(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text.push_back('\\');
    if (c == '\n') {
      text += "\\n";
    } else {
      text.push_back(c);
    }
  }
  return text;
}

class MetricWriter {
 public:
  explicit MetricWriter(const std::string& model_name)
      : label_(fmt::format("model_name=\"{}\"", escaped(model_name))) {}

  void begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP embedded:{} {}\n# TYPE embedded:{} {}\n", name, help, name, type);
  }
  template <class Value>
  void value(Value number, const std::string& further_labels = {}) {
    text_ += fmt::format("embedded:{}{{{}{}}} {}\n", name_, label_, further_labels, number);
  }
  template <class Value>
  void single(std::string_view name, std::string_view type, std::string_view help, Value number) {
    begin(name, type, help);
    value(number);
  }

  void summary(std::string_view name, std::string_view help, double sum, int64_t count) {
    begin(name, "summary", help);
    text_ +=
        fmt::format("embedded:{}_sum{{{}}} {}\nembedded:{}_count{{{}}} {}\n", name, label_, sum, name, label_, count);
  }

  std::string take() { return std::move(text_); }

 private:
  std::string label_;
  std::string_view name_;
  std::string text_;
};

}  // namespace

std::string metrics_text(const MetricValues& values, int64_t num_draft_tokens, const std::string& model_name) {
  MetricWriter writer(model_name);
  writer.single("spec_decode_num_drafts_total", "counter", "Verification steps of single requests.", values.drafts);
  writer.single("spec_decode_num_draft_tokens_total", "counter", "Tokens drafted.", values.draft_tokens);
  writer.single("spec_decode_num_accepted_tokens_total", "counter", "Drafted tokens accepted.", values.accepted_tokens);
  writer.begin("spec_decode_num_accepted_tokens_per_pos_total", "counter", "Steps that accepted this draft position.");
  for (int64_t i = 0; i < num_draft_tokens; ++i) {
    writer.value(values.accepted_at[static_cast<size_t>(i)], fmt::format(",position=\"{}\"", i));
  }
  writer.single("prompt_tokens_total", "counter", "Prompt tokens run.", values.prompt_tokens);
  writer.single("generation_tokens_total", "counter", "Tokens generated.", values.generation_tokens);
  writer.begin("request_success_total", "counter", "Requests finished, by reason.");
  writer.value(values.finished_length, ",finished_reason=\"length\"");
  writer.value(values.finished_stop, ",finished_reason=\"stop\"");
  writer.value(values.finished_abort, ",finished_reason=\"abort\"");
  writer.value(values.finished_error, ",finished_reason=\"error\"");
  writer.single("prefix_cache_queries_total", "counter", "Prompt tokens looked up in a prefix cache; there is none.",
                0);
  writer.single("prefix_cache_hits_total", "counter", "Prompt tokens found in a prefix cache; there is none.", 0);
  writer.single("num_requests_running", "gauge", "Requests in the batch.", values.running);
  writer.single("num_requests_waiting", "gauge", "Requests that wait for a place or for cache blocks.", values.waiting);
  writer.single("kv_cache_usage_perc", "gauge", "Share of the KV cache in use, 0 to 1.", values.kv_usage);
  if (const StepTimes& device = values.device; device.verify_steps > 0) {
    writer.summary("verify_step_seconds", "Device time of verification steps.", device.verify_s, device.verify_steps);
    writer.summary("draft_step_seconds", "Device time of drafting.", device.draft_s, device.draft_steps);
    writer.single("attention_share", "gauge", "Share of the attention kernels in a verification step.",
                  device.attention_share());
  }
  return writer.take();
}

}  // namespace sweep::engine::embedded
