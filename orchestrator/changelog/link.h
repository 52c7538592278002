// Links of pull requests, as pr-link holds them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "orchestrator/schema/config.h"

namespace sweep::changelog {

// Address of a repository on the web, "https://github.com/OWNER/NAME"; empty where it is not known.
using RepositoryAddress = std::string;

struct Link {
  RepositoryAddress repository;  // empty for the bare placeholder
  std::string number;            // digits, or XXX

  bool is_placeholder() const;
};

// `XXX`, or https://HOST/OWNER/NAME/pull/NUMBER with XXX or ASCII digits as number; nothing for other text.
std::optional<Link> parse_link(std::string_view text);

std::string link_to(const RepositoryAddress& repository, std::string_view number);

// OWNER/NAME, or an address; nothing for other text. `server` stands before OWNER/NAME.
std::optional<RepositoryAddress> parse_repository(std::string_view text,
                                                  std::string_view server = "https://github.com");

// The repository that all links of these entries name, placeholders aside; empty if they disagree or there is none.
RepositoryAddress repository_of(std::span<const schema::ChangelogEntry> entries);

}  // namespace sweep::changelog
