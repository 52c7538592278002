// libcurl, loaded with the first request. Linked, it would bring some thirty libraries into every command, and reading
// them in takes longer than `validate` takes. Private to this module.
#pragma once

#include <curl/curl.h>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::http {

// The functions that this module calls, by their names without "curl_".
struct Libcurl {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_free) free = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  decltype(&curl_multi_init) multi_init = nullptr;
  decltype(&curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&curl_multi_setopt) multi_setopt = nullptr;
  decltype(&curl_multi_assign) multi_assign = nullptr;
  decltype(&curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&curl_multi_remove_handle) multi_remove_handle = nullptr;
  decltype(&curl_multi_socket_action) multi_socket_action = nullptr;
  decltype(&curl_multi_info_read) multi_info_read = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
  decltype(&curl_url) url = nullptr;
  decltype(&curl_url_cleanup) url_cleanup = nullptr;
  decltype(&curl_url_get) url_get = nullptr;
  decltype(&curl_url_set) url_set = nullptr;
};

// Loads and initialises it, once in the life of the process. Fails (http/no-libcurl) where it is not installed.
diag::Result<diag::Done> load_libcurl();

// After load_libcurl() succeeded.
const Libcurl& libcurl();

}  // namespace sweep::http
