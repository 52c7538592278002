#include "orchestrator/http/libcurl.h"

#include <dlfcn.h>

#include <string>

#include "orchestrator/base/check.h"
#include "orchestrator/diag/rules/http.h"

namespace sweep::http {

namespace {

struct Loaded {
  Libcurl functions;
  std::string problem;  // empty: loaded
};

template <class Function>
void find(void* library, const char* name, Function& function, std::string& problem) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): what dlsym is for
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr && problem.empty()) problem = std::string("libcurl lacks ") + name;
}

Loaded load() {
  Loaded loaded;
  void* library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.problem = ::dlerror();
    return loaded;
  }
  Libcurl& f = loaded.functions;
  find(library, "curl_global_init", f.global_init, loaded.problem);
  find(library, "curl_free", f.free, loaded.problem);
  find(library, "curl_easy_init", f.easy_init, loaded.problem);
  find(library, "curl_easy_cleanup", f.easy_cleanup, loaded.problem);
  find(library, "curl_easy_setopt", f.easy_setopt, loaded.problem);
  find(library, "curl_easy_getinfo", f.easy_getinfo, loaded.problem);
  find(library, "curl_easy_strerror", f.easy_strerror, loaded.problem);
  find(library, "curl_multi_init", f.multi_init, loaded.problem);
  find(library, "curl_multi_cleanup", f.multi_cleanup, loaded.problem);
  find(library, "curl_multi_setopt", f.multi_setopt, loaded.problem);
  find(library, "curl_multi_assign", f.multi_assign, loaded.problem);
  find(library, "curl_multi_add_handle", f.multi_add_handle, loaded.problem);
  find(library, "curl_multi_remove_handle", f.multi_remove_handle, loaded.problem);
  find(library, "curl_multi_socket_action", f.multi_socket_action, loaded.problem);
  find(library, "curl_multi_info_read", f.multi_info_read, loaded.problem);
  find(library, "curl_slist_append", f.slist_append, loaded.problem);
  find(library, "curl_slist_free_all", f.slist_free_all, loaded.problem);
  find(library, "curl_url", f.url, loaded.problem);
  find(library, "curl_url_cleanup", f.url_cleanup, loaded.problem);
  find(library, "curl_url_get", f.url_get, loaded.problem);
  find(library, "curl_url_set", f.url_set, loaded.problem);
  if (loaded.problem.empty() && f.global_init(CURL_GLOBAL_ALL) != CURLE_OK) loaded.problem = "it cannot be initialised";
  return loaded;
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

}  // namespace

diag::Result<diag::Done> load_libcurl() {
  if (!loaded().problem.empty())
    return diag::fail(diag::rule::http_no_libcurl, "libcurl cannot be used: " + loaded().problem,
                      "install libcurl 7.81 or newer (libcurl4 on Debian and Ubuntu)");
  return diag::Done{};
}

const Libcurl& libcurl() {
  SWEEPCTL_CHECK(loaded().problem.empty());
  return loaded().functions;
}

}  // namespace sweep::http
