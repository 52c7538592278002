// A decoded value together with the place it came from.
#pragma once

#include "orchestrator/yaml/node.h"

namespace sweep::schema {

template <class T>
struct Located {
  T value{};
  yaml::Range where{};
  bool present = false;

  explicit operator bool() const { return present; }
  const T& operator*() const { return value; }
  const T* operator->() const { return &value; }
  T value_or(T other) const { return present ? value : other; }
};

}  // namespace sweep::schema
