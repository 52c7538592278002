#include "orchestrator/changelog/link.h"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/schema/changelog_file.h"

namespace sweep::changelog {

namespace {

constexpr std::string_view kScheme = "https://";
constexpr std::string_view kPull = "/pull/";

bool is_name(std::string_view text) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  return !text.empty() && text != "." && text != ".." && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

bool is_host(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  return is_name(text.substr(0, colon)) &&
         text.substr(colon).find_first_not_of(":0123456789") == std::string_view::npos;
}

// OWNER/NAME
bool is_repository(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && is_name(text.substr(0, slash)) && is_name(text.substr(slash + 1));
}

bool is_address(std::string_view text) {
  if (!text.starts_with(kScheme)) return false;
  text.remove_prefix(kScheme.size());
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && is_host(text.substr(0, slash)) && is_repository(text.substr(slash + 1));
}

bool is_number(std::string_view text) {
  return text == schema::kPlaceholderLink ||
         (!text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos);
}

}  // namespace

bool Link::is_placeholder() const {
  return number == schema::kPlaceholderLink;
}

std::optional<Link> parse_link(std::string_view text) {
  if (text == schema::kPlaceholderLink) return Link{{}, std::string(text)};
  const size_t pull = text.rfind(kPull);
  if (pull == std::string_view::npos) return std::nullopt;
  const std::string_view repository = text.substr(0, pull);
  const std::string_view number = text.substr(pull + kPull.size());
  if (!is_address(repository) || !is_number(number)) return std::nullopt;
  return Link{std::string(repository), std::string(number)};
}

std::string link_to(const RepositoryAddress& repository, std::string_view number) {
  return fmt::format("{}{}{}", repository, kPull, number);
}

std::optional<RepositoryAddress> parse_repository(std::string_view text, std::string_view server) {
  while (server.ends_with('/')) server.remove_suffix(1);
  std::string address = text.starts_with(kScheme) ? std::string(text) : fmt::format("{}/{}", server, text);
  if (!is_address(address)) return std::nullopt;
  return address;
}

RepositoryAddress repository_of(std::span<const schema::ChangelogEntry> entries) {
  RepositoryAddress agreed;
  for (const schema::ChangelogEntry& entry : entries) {
    if (!entry.pr_link) continue;
    const std::optional<Link> link = parse_link(*entry.pr_link);
    if (!link || link->repository.empty()) continue;
    if (agreed.empty()) agreed = link->repository;
    if (agreed != link->repository) return {};
  }
  return agreed;
}

}  // namespace sweep::changelog
