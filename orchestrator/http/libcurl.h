// libcurl, loaded with the first request. Linked, it would bring some thirty libraries into every command, and reading
// them in takes longer than `validate` takes. Private to this module.
#pragma once

#include <curl/curl.h>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::http {

// The functions of libcurl_functions.def.
struct Libcurl {
#define SWEEP_LIBCURL(name) decltype(&curl_##name) name = nullptr;  // NOLINT(bugprone-macro-parentheses): a member
#include "orchestrator/http/libcurl_functions.def"
#undef SWEEP_LIBCURL
};

// Loads and initialises it, once in the life of the process. Fails (http/no-libcurl) where it is not installed.
diag::Result<diag::Done> load_libcurl();

// After load_libcurl() succeeded.
const Libcurl& libcurl();

}  // namespace sweep::http
