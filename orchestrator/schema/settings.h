// The additional-settings of workers: KEY=VALUE texts that launchers export. Private to this module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/schema/points.h"

namespace sweep::schema {

struct Setting {
  std::string key, value;
  yaml::Range where;
  std::string path;
};

// Those of both roles, prefill first, as launchers export them; items that are no KEY=VALUE are left out.
std::vector<Setting> settings_of(const PointView& view);

// The last one counts; null if the key is not set.
const Setting* find_setting(const std::vector<Setting>& settings, std::string_view key);

// The items by themselves.
void check_settings(const PointView& view, diag::Diagnostics& out);

}  // namespace sweep::schema
