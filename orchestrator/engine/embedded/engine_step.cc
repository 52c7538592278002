// The engine's work on the model: prompt chunks, and the draft-verify-commit loop.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "orchestrator/base/clock.h"
#include "orchestrator/engine/embedded/engine.h"
#include "orchestrator/engine/embedded/engine_request.h"

namespace sweep::engine::embedded {

namespace {

constexpr int64_t kWindowSteps = 40;

}  // namespace

// Logits for the token `ahead` places after the newest committed one, with the end token out of reach where it may not
// be generated yet.
std::span<float> Engine::masked_logits(const Request& request, int64_t ahead, float* logits) const {
  if (request.generated + ahead < request.parameters.min_tokens) logits[config_.eos_token_id] = kImpossibleLogit;
  return {logits, static_cast<size_t>(config_.vocab_size)};
}

int32_t Engine::first_token(Request& request, std::span<float> logits) const {
  if (request.parameters.temperature == 0) return greedy_token(logits);
  return sample_token(softmax(logits, request.parameters.temperature), request.sample_random.uniform());
}

void Engine::prefill() {
  std::vector<Segment> segments;
  std::vector<Request*> requests;
  int64_t budget = options_.prefill_tokens;
  for (const auto& request : active_) {
    const int64_t left = request->prompt_size() - request->prompt_run;
    if (left == 0 || budget == 0) continue;
    const int64_t count = std::min(left, budget);
    segments.push_back({&request->sequence, request->prompt_run,
                        std::span<const int32_t>(request->parameters.prompt)
                            .subspan(static_cast<size_t>(request->prompt_run), static_cast<size_t>(count))});
    requests.push_back(request.get());
    budget -= count;
  }
  if (segments.empty()) return;
  if (auto done = decoder_.forward(segments, FLASHMLA_MAX_QUERY_TOKENS, Pass::kPrompt); !done)
    return fail(done.error());
  for (size_t i = 0; i < requests.size(); ++i) {
    Request& request = *requests[i];
    const auto count = static_cast<int64_t>(segments[i].tokens.size());
    request.prompt_run += count;
    metrics_.update([&](MetricValues& values) { values.prompt_tokens += count; });
    if (request.prompt_run < request.prompt_size()) continue;
    const int64_t row = decoder_.row_of(i, count - 1);
    if (auto kept = decoder_.remember(request.sequence, row); !kept) return fail(kept.error());
    if (auto done = decoder_.logits({&row, 1}, logits_); !done) return fail(done.error());
    const int32_t token = first_token(request, masked_logits(request, 0, logits_.data()));
    commit(request, {&token, 1});
  }
}

void Engine::decode() {
  Step step;
  step.count = options_.num_draft_tokens;
  for (const auto& request : active_) {
    if (request->is_decoding()) step.requests.push_back(request.get());
  }
  if (step.requests.empty()) return;
  const int64_t begin_ns = base::unix_ns();
  if (window_.steps == 0) window_.device = decoder_.step_times();
  if (auto drafted = draft(step); !drafted) return fail(drafted.error());

  const auto query_tokens = static_cast<size_t>(step.count) + 1;
  std::vector<int32_t> queries;
  for (size_t i = 0; i < step.requests.size(); ++i) {
    queries.push_back(step.requests[i]->tokens.back());
    const auto own = step.drafts_of(i);
    queries.insert(queries.end(), own.begin(), own.end());
  }
  std::vector<Segment> segments;
  for (size_t i = 0; i < step.requests.size(); ++i) {
    Request& request = *step.requests[i];
    segments.push_back({&request.sequence, static_cast<int64_t>(request.tokens.size()) - 1,
                        std::span<const int32_t>(queries).subspan(i * query_tokens, query_tokens)});
  }
  if (auto done = decoder_.forward(segments, static_cast<int32_t>(query_tokens), Pass::kVerify); !done) {
    return fail(done.error());
  }
  for (size_t i = 0; i < step.requests.size(); ++i) step.first_rows.push_back(decoder_.row_of(i, 0));
  const auto committed = verify(step);
  metrics_.update([&](MetricValues& values) { values.device = decoder_.step_times(); });
  if (!committed) return fail(committed.error());
  // Before anything is sent: a client that has its last token finds its steps in the log.
  if (step.count > 0) log_window(begin_ns, static_cast<int64_t>(step.requests.size()));
  for (size_t i = 0; i < step.requests.size(); ++i) commit(*step.requests[i], (*committed)[i]);
}

diag::Result<diag::Done> Engine::draft(Step& step) {
  if (step.count == 0) return diag::Done{};
  std::vector<DraftRequest> wanted;
  for (Request* request : step.requests) {
    const GenerationParameters& parameters = request->parameters;
    auto& draft = wanted.emplace_back(DraftRequest{.sequence = &request->sequence,
                                                   .last_token = request->tokens.back(),
                                                   .masked = parameters.min_tokens - request->generated,
                                                   .temperature = parameters.temperature,
                                                   .uniforms = {}});
    for (int64_t i = 0; draft.temperature > 0 && i < step.count; ++i) {
      draft.uniforms.push_back(request->sample_random.uniform());
    }
  }
  auto drafts = decoder_.draft(wanted, step.count);
  if (!drafts) return diag::fail(drafts.error());
  step.drafts = std::move(drafts).value();
  return diag::Done{};
}

// The tokens to commit, per request. Computes logits only where a token is chosen: with explicit acceptance that is one
// row per request.
diag::Result<std::vector<std::vector<int32_t>>> Engine::verify(Step& step) {
  const bool is_explicit = options_.acceptance_length != 0;
  std::vector<int64_t> rows;
  for (size_t i = 0; i < step.requests.size(); ++i) {
    step.first_logits.push_back(rows.size());
    if (is_explicit) {
      const AcceptanceSchedule schedule(options_.acceptance_length);
      step.accepted.push_back(schedule.next(step.requests[i]->accept_random));
      rows.push_back(step.first_rows[i] + step.accepted.back());
    } else {
      for (int64_t k = 0; k <= step.count; ++k) rows.push_back(step.first_rows[i] + k);
    }
  }
  if (auto done = decoder_.logits(rows, logits_); !done) return diag::fail(done.error());
  std::vector<std::vector<int32_t>> committed;
  for (size_t i = 0; i < step.requests.size(); ++i) {
    Request& request = *step.requests[i];
    const auto own = step.drafts_of(i);
    const Verdict verdict = judge(step, i);
    if (auto kept = decoder_.remember(request.sequence, step.first_rows[i] + verdict.accepted); !kept) {
      return diag::fail(kept.error());
    }
    auto& tokens = committed.emplace_back(own.begin(), own.begin() + verdict.accepted);
    tokens.push_back(verdict.next_token);
    if (step.count > 0) count_step(verdict.accepted);
  }
  return committed;
}

Verdict Engine::judge(Step& step, size_t index) {
  const auto drafts = step.drafts_of(index);
  Request& request = *step.requests[index];
  const double temperature = request.parameters.temperature;
  const bool is_explicit = options_.acceptance_length != 0;
  const auto target = [&](int64_t ahead) {
    const auto row = static_cast<int64_t>(step.first_logits[index]) + (is_explicit ? 0 : ahead);
    return masked_logits(request, ahead, logits_.data() + row * decoder_.logits_stride());
  };
  if (is_explicit) {
    const int64_t accepted = step.accepted[index];
    return {accepted, first_token(request, target(accepted))};
  }
  if (temperature == 0) return verify_greedy(drafts, target);
  return verify_sampled(
      drafts,
      [&](int64_t i) {
        return std::span<const double>(
            step.drafts.shares[index * static_cast<size_t>(step.count) + static_cast<size_t>(i)]);
      },
      [&](int64_t ahead) { return softmax(target(ahead), temperature); }, request.sample_random);
}

// Appends tokens up to the request's end and sends them on.
void Engine::commit(Request& request, std::span<const int32_t> tokens) {
  TokenEvent event;
  for (const int32_t token : tokens) {
    request.tokens.push_back(token);
    event.tokens.push_back(token);
    ++request.generated;
    if (token == config_.eos_token_id && !request.parameters.ignore_eos) {
      event.finish = FinishReason::kStop;
    } else if (request.generated == request.parameters.max_tokens) {
      event.finish = FinishReason::kLength;
    }
    if (event.finish) break;
  }
  const auto finish = event.finish;
  metrics_.update([&](MetricValues& values) { values.generation_tokens += static_cast<int64_t>(event.tokens.size()); });
  // Counters and cache are settled before the client hears of the end and may ask for them.
  if (finish) retire(request, *finish, false);
  request.stream->push(std::move(event));
}

void Engine::refuse(Request& request, const diag::Diagnostic& reason) {
  request.stream->push({.tokens = {}, .finish = FinishReason::kError, .error = reason.message});
}

void Engine::fail(const diag::Diagnostic& reason) {
  log_.write({{"event", "error"}, {"rule", diag::rule_info(reason.rule).slug}, {"message", reason.message}});
  {
    const std::lock_guard lock(mutex_);
    failure_ = reason;
    std::move(incoming_.begin(), incoming_.end(), std::back_inserter(waiting_));
    incoming_.clear();
  }
  for (const auto& request : active_) {
    if (request->retired) continue;
    retire(*request, FinishReason::kError, false);
    refuse(*request, reason);
  }
  metrics_.update([&](MetricValues& values) { values.finished_error += static_cast<int64_t>(waiting_.size()); });
  for (const auto& request : waiting_) refuse(*request, reason);
  waiting_.clear();
}

void Engine::count_step(int64_t accepted) {
  window_.accepted += accepted;
  metrics_.update([&](MetricValues& values) {
    ++values.drafts;
    values.draft_tokens += options_.num_draft_tokens;
    values.accepted_tokens += accepted;
    for (int64_t i = 0; i < accepted; ++i) ++values.accepted_at[static_cast<size_t>(i)];
  });
}

// One line per kWindowSteps verification steps of single requests (more when a batch passes that number in one go).
void Engine::log_window(int64_t begin_ns, int64_t steps) {
  if (window_.steps == 0) window_.begin_ns = begin_ns;
  window_.steps += steps;
  if (window_.steps < kWindowSteps) return;
  nlohmann::ordered_json line = {{"event", "decode_window"},
                                 {"unix_ns_begin", window_.begin_ns},
                                 {"unix_ns_end", base::unix_ns()},
                                 {"steps", window_.steps},
                                 {"accepted", window_.accepted}};
  const StepTimes now = decoder_.step_times();
  if (const int64_t verified = now.verify_steps - window_.device.verify_steps; verified > 0) {
    constexpr double kMicro = 1e6;
    line["verify_step_us"] = (now.verify_s - window_.device.verify_s) * kMicro / static_cast<double>(verified);
  }
  log_.write(line);
  window_ = {};
}

}  // namespace sweep::engine::embedded
