// A decoded value together with the place it came from.
#pragma once

#include "orchestrator/yaml/node.h"

namespace sweep::schema {

template <class T>
struct Located {
  T value{};
  yaml::Range where{};
  bool present = false;

  // Written in the file, well-formed or not: a rule about missing values must not report a bad one again.
  bool stated() const { return present || where.end != 0; }

  explicit operator bool() const { return present; }
  const T& operator*() const { return value; }
  const T* operator->() const { return &value; }
  T value_or(T other) const { return present ? value : other; }
};

}  // namespace sweep::schema
