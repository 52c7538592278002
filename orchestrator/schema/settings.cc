#include "orchestrator/schema/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "orchestrator/diag/rules/settings.h"
#include "orchestrator/schema/rules.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_variable(std::string_view text) {
  return !text.empty() && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

// What a shell would split or interpret. Brackets are part of selectors and stay.
bool is_plain_value(std::string_view value) {
  return value.find_first_of(" \t\n\"'\\$`;&|<>()*?#!~") == std::string_view::npos;
}

template <class Visit>
void for_each_item(const PointView& view, Visit visit) {
  for (const auto& [worker, role] :
       {std::pair{&view.point->prefill, ".prefill"}, std::pair{&view.point->decode, ".decode"}}) {
    if (!*worker) continue;
    for (size_t i = 0; i < (*worker)->additional_settings.size(); ++i) {
      const Text& item = (*worker)->additional_settings[i];
      if (item) visit(item, fmt::format("{}{}.additional-settings[{}]", view.path, role, i), role);
    }
  }
}

class SettingsCheck {
 public:
  SettingsCheck(const PointView& view, diag::Diagnostics& out) : view_(view), out_(out) {}

  void run() {
    for_each_item(view_, [this](const Text& item, std::string path, std::string_view role) {
      check_item(item, std::move(path), role);
    });
  }

 private:
  struct Seen {
    std::string value;
    std::string_view role;
    yaml::Range where;
  };

  void check_item(const Text& item, std::string path, std::string_view role) {
    const size_t equals = item->find('=');
    const std::string key = item->substr(0, equals);
    if (equals == std::string::npos || !is_variable(key)) {
      out_.add(finding(rule::settings_form, *view_.entry->document, item.where, std::move(path),
                       fmt::format("\"{}\" is no KEY=VALUE", *item),
                       "launchers export each item; write NAME=value, the name of letters, digits and \"_\""));
      return;
    }
    std::string value = item->substr(equals + 1);
    if (!is_plain_value(value))
      out_.add(finding(rule::settings_unsafe_text, *view_.entry->document, item.where, path,
                       fmt::format("the value of {} holds characters that a shell interprets", key),
                       "the peer's workflow exports settings on an unquoted line; use plain text"));
    const auto [seen, added] = seen_.emplace(key, Seen{value, role, item.where});
    if (added) return;
    // Stating the same for both roles is usual.
    if (seen->second.role != role && seen->second.value == value) return;
    const bool same = seen->second.value == value;
    diag::Diagnostic d =
        finding(rule::settings_repeated, *view_.entry->document, item.where, std::move(path),
                same ? fmt::format("{} is set twice", key)
                     : fmt::format("{} is set to \"{}\" and before to \"{}\"", key, value, seen->second.value),
                "both roles share one environment in which the last value counts; keep one");
    d.notes.push_back({"set before here", view_.entry->document->span(seen->second.where)});
    out_.add(std::move(d));
  }

  const PointView& view_;
  diag::Diagnostics& out_;
  std::map<std::string, Seen> seen_;
};

}  // namespace

std::vector<Setting> settings_of(const PointView& view) {
  std::vector<Setting> settings;
  for_each_item(view, [&](const Text& item, std::string path, std::string_view) {
    const size_t equals = item->find('=');
    if (equals == std::string::npos || !is_variable(std::string_view(*item).substr(0, equals))) return;
    settings.push_back({item->substr(0, equals), item->substr(equals + 1), item.where, std::move(path)});
  });
  return settings;
}

const Setting* find_setting(const std::vector<Setting>& settings, std::string_view key) {
  const auto found = std::find_if(settings.rbegin(), settings.rend(), [&](const Setting& s) { return s.key == key; });
  return found == settings.rend() ? nullptr : &*found;
}

void check_settings(const PointView& view, diag::Diagnostics& out) {
  SettingsCheck(view, out).run();
}

}  // namespace sweep::schema
