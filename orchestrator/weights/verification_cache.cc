#include "orchestrator/weights/verification_cache.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/base/hex.h"
#include "orchestrator/digest/sha256.h"

namespace sweep::weights {

namespace {

using nlohmann::json;

// Part of every key: to be raised when what is cached, or what is checked before it is, changes.
constexpr int kVersion = 1;
constexpr uint64_t kLargestCache = uint64_t{64} << 20;
constexpr size_t kNameDigits = 32;

// Nobody else can have put something there.
bool is_private(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && status.st_uid == ::geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

template <class T>
bool read_number(const json& item, const char* name, T& to) {
  const auto found = item.find(name);
  if (found == item.end() || !found->is_number_integer()) return false;
  to = found->get<T>();
  return true;
}

bool read_text(const json& item, const char* name, std::string& to) {
  const auto found = item.find(name);
  if (found == item.end() || !found->is_string()) return false;
  to = found->get<std::string>();
  return true;
}

std::optional<KnownDigests> entry_of(const json& item) {
  KnownDigests entry;
  if (!item.is_object() || !read_number(item, "device", entry.stamp.device) ||
      !read_number(item, "inode", entry.stamp.inode) || !read_number(item, "size", entry.stamp.size) ||
      !read_number(item, "mtime_ns", entry.stamp.mtime_ns) || !read_number(item, "ctime_ns", entry.stamp.ctime_ns) ||
      !read_text(item, "sha256", entry.sha256) || !read_text(item, "git_blob", entry.git_blob))
    return std::nullopt;
  return entry;
}

}  // namespace

VerificationCache::VerificationCache(const std::filesystem::path& folder, const std::filesystem::path& model,
                                     std::string_view pin_sha256)
    : key_(digest::sha256_hex(fmt::format("{}\n{}\n{}\n", kVersion, pin_sha256, model.string()))) {
  file_ = folder / "verified" / (key_.substr(0, kNameDigits) + ".json");
  load();
}

void VerificationCache::load() {
  if (!is_private(file_.parent_path()) || !is_private(file_)) return;
  const auto text = base::read_file(file_, kLargestCache);
  if (!text || text->size() < base::kSha256Digits + 1) return;
  const std::string_view body = std::string_view(*text).substr(0, text->size() - base::kSha256Digits - 1);
  if (std::string_view(*text).substr(body.size()) != digest::sha256_hex(std::string(body)) + "\n") return;
  const json root = json::parse(body, nullptr, false);
  std::string key;
  std::string sound_state;
  if (!root.is_object() || !read_text(root, "key", key) || key != key_ ||
      !read_text(root, "sound_state", sound_state) || !root.contains("files") || !root["files"].is_array())
    return;
  std::map<Place, KnownDigests> entries;
  for (const json& item : root["files"]) {
    auto entry = entry_of(item);
    if (!entry) return;
    const Place place(entry->stamp.device, entry->stamp.inode);
    entries[place] = std::move(*entry);
  }
  entries_ = std::move(entries);
  sound_state_ = std::move(sound_state);
}

std::optional<KnownDigests> VerificationCache::find(const FileStamp& stamp) const {
  const auto found = entries_.find({stamp.device, stamp.inode});
  if (found == entries_.end()) return std::nullopt;
  return found->second;
}

void VerificationCache::put(KnownDigests digests) {
  KnownDigests& entry = entries_[{digests.stamp.device, digests.stamp.inode}];
  if (entry == digests) return;
  entry = std::move(digests);
  changed_ = true;
}

void VerificationCache::set_sound_state(std::string state) {
  if (sound_state_ == state) return;
  sound_state_ = std::move(state);
  changed_ = true;
}

base::Expected<base::Done, base::IoError> VerificationCache::save() {
  if (!changed_) return base::Done{};
  if (auto made = base::make_directories(file_.parent_path()); !made) return made;
  json files = json::array();
  for (const auto& [place, entry] : entries_)
    files.push_back({{"device", entry.stamp.device},
                     {"inode", entry.stamp.inode},
                     {"size", entry.stamp.size},
                     {"mtime_ns", entry.stamp.mtime_ns},
                     {"ctime_ns", entry.stamp.ctime_ns},
                     {"sha256", entry.sha256},
                     {"git_blob", entry.git_blob}});
  const json root = {{"key", key_}, {"files", std::move(files)}, {"sound_state", sound_state_}};
  const std::string body = root.dump(1) + "\n";
  auto written = base::write_file_atomic(file_, body + digest::sha256_hex(body) + "\n");
  if (written) changed_ = false;
  return written;
}

std::string state_of(std::span<const NamedStamp> files) {
  digest::Sha256 hash;
  for (const NamedStamp& file : files) hash.update(fmt::format("{}\n{}\n", file.path, to_text(file.stamp)));
  return digest::hex(hash.finish());
}

}  // namespace sweep::weights
