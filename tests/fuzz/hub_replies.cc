// What a hub sends, and what is put into the addresses it is asked at: listings, headers, redirects, names.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "orchestrator/diag/rules/hub.h"
#include "orchestrator/http/url.h"
#include "orchestrator/hub/api.h"
#include "orchestrator/hub/listing.h"
#include "orchestrator/hub/model_id.h"
#include "orchestrator/hub/retry.h"
#include "orchestrator/schema/model_path.h"
#include "tests/fuzz/require.h"

namespace {

using namespace sweep;
using fuzz::require;

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

void listing(std::string_view text) {
  diag::Diagnostics diagnostics;
  auto files = hub::parse_entries(text, {.name = "x", .rule = diag::rule::hub_bad_reply}, diagnostics);
  hub::tidy(files, diagnostics);
  for (const diag::Diagnostic& d : diagnostics.items())
    require(!d.message.empty() && !has_control(d.message), "a message cannot be shown");
  for (size_t i = 0; i < files.size(); ++i) {
    require(i == 0 || files[i - 1].path < files[i].path, "files are out of order");
    require(files[i].sha256.has_value() != files[i].git_blob.has_value(), "a file has not one digest");
    require(files[i].digest().size() == (files[i].sha256 ? 64 : 40), "a digest has another length");
    require(!schema::unsafe_reason(files[i].path), "a path leaves the folder");
    require(hub::find_file(files, files[i].path) == &files[i], "a file is not found");
  }
  for (const std::string& missing : hub::missing_numbers(files))
    require(hub::find_file(files, missing) == nullptr, "a listed file is missing");
  require(!files.empty() || !diagnostics.empty() || text.find('[') != std::string_view::npos, "nothing was said");
}

void headers(std::string_view text) {
  const auto next = hub::next_link(text);
  require(!next || text.find(*next) != std::string_view::npos, "the next page is not in the header");
  for (const char* name : {"retry-after", "ratelimit"}) {
    const auto wait =
        hub::asked_wait({.status = 429, .headers = {{name, std::string(text)}}}, 1'700'000'000'000'000'000);
    require(!wait || (wait->count() >= 0 && wait->count() <= 366 * 24 * 3600), "a wait is out of range");
  }
}

void redirect(const std::string& location) {
  const auto target = http::resolve_reference("https://user:secret@hub.example/a/b?c=secret", location);
  if (!target) return;
  const auto origin = http::origin_of(*target);
  require(origin && (origin->scheme == "http" || origin->scheme == "https") && !origin->host.empty(), "no web server");
  require(origin->host == "hub.example" || target->find("secret") == std::string::npos ||
              location.find("secret") != std::string::npos,
          "a secret leaves its host");
  require(!has_control(http::display_url(*target)), "a URL cannot be shown");
}

void names(const std::string& text) {
  const hub::ModelRevision wanted = hub::split_model_revision(text);
  const auto model = hub::check_model(wanted.model);
  const auto revision = hub::check_resolvable(wanted);
  require(model || !has_control(model.error().message), "a message cannot be shown");
  require(revision || !has_control(revision.error().message), "a message cannot be shown");
  if (!model || !revision) return;
  const std::string path = "/api/models/" + wanted.model + "/revision/" + http::percent_encoded(wanted.revision);
  const std::string url = "https://hub.example" + path;
  require(http::path_of(url) == path, "a name changes the path");
  require(http::origin_of(url).value().host == "hub.example", "a name changes the host");
}

}  // namespace

// The first byte chooses what the rest is.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      listing(text);
      break;
    case 1:
      headers(text);
      break;
    case 2:
      redirect(text);
      break;
    default:
      names(text);
  }
  return 0;
}
