// The interface of libsweepctl-embedded-cuda.so, which holds everything that needs CUDA, cuBLAS or NCCL and is loaded
// at run time, so that the engine starts on hosts without them. Both sides come from one build. Nothing here throws;
// every text returned is a reason for failure, empty after success.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flashmla/flashmla.h"
#include "orchestrator/engine/embedded/model_config.h"
#include "orchestrator/engine/embedded/step_times.h"

namespace sweep::engine::embedded::cuda {

// Functions of the kernel library.
struct KernelFunctions {
  decltype(&flashmla_context_create) context_create = nullptr;
  decltype(&flashmla_context_destroy) context_destroy = nullptr;
  decltype(&flashmla_sparse_decode_workspace) workspace_size = nullptr;
  decltype(&flashmla_sparse_decode) decode = nullptr;
  decltype(&flashmla_error_message) error_message = nullptr;
  decltype(&flashmla_status_text) status_text = nullptr;
};

struct TensorBytes {
  const char* data = nullptr;
  bool is_bf16 = false;  // else FP32
};

// The checkpoint's tensors by name; asked only while the model is made.
class TensorSource {
 public:
  virtual TensorBytes tensor(const std::string& name) const = 0;

 protected:
  ~TensorSource() = default;
};

struct DeviceModelOptions {
  const ModelConfig* config = nullptr;    // need not outlive the call
  const TensorSource* tensors = nullptr;  // likewise
  KernelFunctions kernels;
  int64_t ranks = 1;       // GPUs; rank r runs on the r-th that CUDA shows
  int64_t num_blocks = 1;  // of the KV cache
  int64_t sequences = 1;   // slots
  int64_t positions = 1;   // a sequence's positions run below it
  int64_t rows = 16;       // most rows of a forward pass
};

// A forward pass. Rows are groups of `query_tokens`; segment s has consecutive rows.
struct ForwardInput {
  int32_t query_tokens = 1;
  bool is_verification = false;    // a step of the decoding loop: its time counts
  std::vector<int32_t> tokens;     // [rows]; any token where a row fills up
  std::vector<int32_t> positions;  // [rows]; -1: the row fills up
  std::vector<int32_t> segments;   // [rows]; of the row
  struct Segment {
    int32_t slot = 0;
    int32_t start = 0;  // position of its first token
    int32_t tokens = 0;
    int32_t first_row = 0;
  };
  std::vector<Segment> parts;
  std::vector<int32_t> blocks;  // [segment, blocks_per_sequence()]
};

struct DraftInput {
  int32_t count = 0;  // drafts for each sequence
  std::vector<int32_t> slots;
  std::vector<int32_t> last_tokens;
  std::vector<int32_t> masked;      // for so many drafts the end token is out of reach
  std::vector<float> temperatures;  // 0: greedy
  std::vector<double> uniforms;     // [sequence, count]
};

class DeviceModel {
 public:
  virtual ~DeviceModel() = default;

  virtual int64_t blocks_per_sequence() const = 0;
  virtual std::string device_names() const = 0;
  virtual int64_t collective_version() const = 0;  // of NCCL; 0: not used

  virtual std::string forward(const ForwardInput& input) = 0;
  // [rows.size(), vocab_size] logits of the last forward pass.
  virtual std::string logits(const std::vector<int64_t>& rows, std::vector<float>& logits) = 0;
  // Keeps the features of a row of the last forward pass in a slot.
  virtual std::string remember(int64_t row, int64_t slot) = 0;
  // Tokens [sequence, count], and logits [sequence, count, vocab_size] if any temperature is above 0.
  virtual std::string draft(const DraftInput& input, std::vector<int32_t>& tokens, std::vector<float>& logits) = 0;
  virtual StepTimes step_times() const = 0;
};

// The only symbol of the library. Null with a reason in `problem`.
using MakeDeviceModel = DeviceModel* (*)(const DeviceModelOptions& options, std::string& problem);
inline constexpr const char* kMakeDeviceModel = "sweepctl_embedded_make_device_model";

}  // namespace sweep::engine::embedded::cuda
