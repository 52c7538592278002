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
#define SWEEP_LIBCURL(name) find(library, "curl_" #name, f.name, loaded.problem);
#include "orchestrator/http/libcurl_functions.def"
#undef SWEEP_LIBCURL
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
