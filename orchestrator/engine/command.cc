#include "orchestrator/engine/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/base/json_nesting.h"
#include "orchestrator/diag/rules/engine.h"

namespace sweep::engine {

namespace {

namespace rule = diag::rule;

std::string_view without_dashes(std::string_view name) {
  while (name.starts_with('-')) name.remove_prefix(1);
  return name;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> recipe_environment(const plan::Job& job) {
  std::vector<std::pair<std::string, std::string>> environment;
  for (const plan::Setting& setting : job.environment) environment.emplace_back(setting.name, setting.value);
  return environment;
}

std::vector<std::pair<std::string, std::string>> python_environment(const plan::Job& job) {
  constexpr std::string_view kUnbuffered = "PYTHONUNBUFFERED";
  auto environment = recipe_environment(job);
  if (std::none_of(environment.begin(), environment.end(), [&](const auto& v) { return v.first == kUnbuffered; }))
    environment.emplace_back(kUnbuffered, "1");
  return environment;
}

bool is_same_flag(std::string_view a, std::string_view b) {
  a = without_dashes(a);
  b = without_dashes(b);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return (x == '_' ? '-' : x) == (y == '_' ? '-' : y); });
}

const plan::Setting* find_flag(const plan::Job& job, std::initializer_list<std::string_view> names) {
  for (const plan::Setting& flag : job.engine_flags)
    for (const std::string_view name : names)
      if (is_same_flag(flag.name, name)) return &flag;
  return nullptr;
}

std::vector<plan::Setting> flags_without(const plan::Job& job, std::initializer_list<std::string_view> set_here) {
  std::vector<plan::Setting> rest;
  std::copy_if(job.engine_flags.begin(), job.engine_flags.end(), std::back_inserter(rest),
               [&](const plan::Setting& flag) {
                 return std::none_of(set_here.begin(), set_here.end(),
                                     [&](std::string_view name) { return is_same_flag(flag.name, name); });
               });
  return rest;
}

void add_flags(std::vector<std::string>& argv, const std::vector<plan::Setting>& flags) {
  for (const plan::Setting& flag : flags) {
    if (flag.is_switch && flag.value == "false") continue;
    argv.push_back("--" + flag.name);
    if (!flag.is_switch) argv.push_back(flag.value);
  }
}

diag::Result<int> port_of(const plan::Job& job, std::initializer_list<std::string_view> names, int usual) {
  const plan::Setting* flag = find_flag(job, names);
  if (flag == nullptr) return usual;
  int port = 0;
  const char* end = flag->value.data() + flag->value.size();
  const auto [last, error] = std::from_chars(flag->value.data(), end, port);
  constexpr int kLastPort = 65535;
  if (error != std::errc() || last != end || port < 1 || port > kLastPort)
    return diag::fail(diag::make_at(rule::engine_recipe_unusable, job.where,
                                    fmt::format("\"{}\" of {} is \"{}\", expected a port from 1 to {}", flag->name,
                                                job.recipe, flag->value, kLastPort),
                                    "state another port in the recipe, or none"));
  return port;
}

diag::Result<std::optional<double>> forced_length(const plan::Job& job) {
  if (job.num_draft_tokens == 0 || job.acceptance.source == plan::AcceptanceSource::kMeasured || !job.acceptance.length)
    return std::optional<double>();
  const double length = *job.acceptance.length;
  const auto most = static_cast<double>(job.num_draft_tokens + 1);
  if (length >= 1 && length <= most) return std::optional(length);  // false for NaN
  return diag::fail(
      diag::make_at(rule::engine_acceptance_range, job.where,
                    fmt::format("\"{}\" asks for an acceptance length of {}, expected 1 to {} with {} draft tokens",
                                job.entry, decimal(length), job.num_draft_tokens + 1, job.num_draft_tokens),
                    "state a length in that range: the target's own token is counted"));
}

diag::Result<nlohmann::json> object_in(const plan::Job& job, const plan::Setting& flag) {
  auto parsed = base::json_nesting(flag.value) <= base::kDeepestJson ? nlohmann::json::parse(flag.value, nullptr, false)
                                                                     : nlohmann::json();
  if (parsed.is_object()) return parsed;
  return diag::fail(diag::make_at(rule::engine_recipe_unusable, job.where,
                                  fmt::format("\"{}\" of {} is no JSON object", flag.name, job.recipe),
                                  "write it as a mapping, or as JSON in a text"));
}

std::string decimal(double value) {
  return fmt::format("{}", value);
}

base::Unexpected<diag::Diagnostic> acceptance_unsupported(const plan::Job& job, std::string why, std::string help) {
  return diag::fail(diag::make_at(rule::engine_acceptance_unsupported, job.where,
                                  fmt::format("\"{}\" asks for an acceptance length of {}, but {}", job.entry,
                                              decimal(job.acceptance.length.value_or(0)), why),
                                  std::move(help)));
}

}  // namespace sweep::engine
