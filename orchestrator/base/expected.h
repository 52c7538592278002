// A value or an error. std::expected needs C++23 in the compilers we support.
#pragma once

#include <utility>
#include <variant>

#include "orchestrator/base/check.h"

namespace sweep::base {

// Wraps an error so that Expected<T, E> can be built from it even when T and E are convertible.
template <class E>
struct Unexpected {
  E error;
};
template <class E>
Unexpected(E) -> Unexpected<E>;

// Holds either a T or an E. Reading the wrong side is a bug and aborts.
template <class T, class E>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  template <class G>
  Expected(Unexpected<G> unexpected) : state_(std::in_place_index<1>, std::move(unexpected.error)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & {
    SWEEPCTL_CHECK(has_value());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    SWEEPCTL_CHECK(has_value());
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    SWEEPCTL_CHECK(has_value());
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  E& error() & {
    SWEEPCTL_CHECK(!has_value());
    return *std::get_if<1>(&state_);
  }
  const E& error() const& {
    SWEEPCTL_CHECK(!has_value());
    return *std::get_if<1>(&state_);
  }
  E&& error() && {
    SWEEPCTL_CHECK(!has_value());
    return std::move(*std::get_if<1>(&state_));
  }

 private:
  std::variant<T, E> state_;
};

// The value type of operations that only succeed or fail.
struct Done {};

}  // namespace sweep::base
