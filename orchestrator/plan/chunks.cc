#include "orchestrator/plan/chunks.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace sweep::plan {

namespace {

std::string id_of(std::string_view bucket, size_t number) {
  std::string id = fmt::format("{}_{}", bucket, number);
  for (char& c : id)
    if (c == '/') c = '_';
  return id;
}

}  // namespace

std::vector<Chunk> make_chunks(std::span<const Bucket> buckets, const ChunkLimits& limits) {
  std::vector<Chunk> chunks;
  for (const Bucket& bucket : buckets) {
    size_t number = 0;
    size_t bytes = 0;
    bool is_open = false;
    for (const std::string& row : bucket.rows) {
      const size_t more = utf16_bytes(row) + utf16_bytes(",");
      if (is_open && (chunks.back().rows == limits.rows || bytes + more > limits.bytes)) {
        chunks.back().json += "]";
        is_open = false;
      }
      if (!is_open) {
        chunks.push_back({id_of(bucket.name, ++number), bucket.name, 0, "["});
        bytes = utf16_bytes("[]");
        is_open = true;
      }
      Chunk& chunk = chunks.back();
      if (chunk.rows++ != 0) chunk.json += ",";
      chunk.json += row;
      bytes += more;
    }
    if (is_open) chunks.back().json += "]";
  }
  return chunks;
}

std::string gate_json(std::span<const Chunk> chunks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Chunk& chunk : chunks) list.push_back({{"id", chunk.id}, {"bucket", chunk.bucket}, {"rows", chunk.rows}});
  return list.dump();
}

size_t utf16_bytes(std::string_view utf8) {
  size_t units = 0;
  for (const char c : utf8) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0u) != 0x80u) units += byte >= 0xF0u ? 2 : 1;  // a lead byte; above U+FFFF two units
  }
  return 2 * units;
}

}  // namespace sweep::plan
