// An engine's command inside the entry's image, with docker, podman or enroot. The model and the run folder have the
// same paths inside as outside, and the network is the host's, so that the command is the one of a local engine.
#pragma once

#include <sys/types.h>

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/adapter.h"

namespace sweep::engine {

// The first of docker, podman and enroot that is in PATH; empty if none is.
std::string container_runtime();

// `launch` as it is to be run by this runtime. Fails (engine/no-container-runtime) without a runtime or an image.
diag::Result<Launch> in_container(Launch launch, const LaunchRequest& request, const std::string& runtime);

// Removes what is left of a container of this name, imports the image where the runtime needs that, and reads the
// image's digest: "sha256:..." or empty where the runtime knows none.
diag::Result<std::string> prepare_container(const Container& container, const std::stop_token& stop);

// The process of the host that all others inside descend from; nothing if the runtime does not tell.
std::optional<pid_t> first_process(const Container& container);

void stop_container(const Container& container);
void remove_container(const Container& container);
// The same for one that is known by name only; nothing is done for a runtime or a name that is none of ours.
void remove_container(const std::string& runtime, const std::string& name);

// "sha256:..." out of a reference that pins an image, or out of what a runtime prints; empty if there is none.
std::string digest_in(std::string_view text);

}  // namespace sweep::engine
