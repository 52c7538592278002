// Failures of the device layer as values: a message that names the driver function and what the driver said.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace flashmla::device {

class [[nodiscard]] Status {
 public:
  Status() = default;  // success
  static Status failure(std::string message) {
    Status status;
    status.message_ = std::move(message);
    return status;
  }

  bool ok() const { return message_.empty(); }
  explicit operator bool() const { return ok(); }
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

// A value, or why there is none. The value may be used only if ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                 // NOLINT(google-explicit-constructor)
  Result(const Status& status) : message_(status.message()) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const std::string& message() const { return message_; }
  Status status() const { return ok() ? Status() : Status::failure(message_); }

  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  std::string message_;
};

}  // namespace flashmla::device
