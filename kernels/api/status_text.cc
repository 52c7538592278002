#include "flashmla/flashmla.h"

const char* flashmla_status_text(flashmla_status status) {
  switch (status) {
    case FLASHMLA_OK:
      return "ok";
    case FLASHMLA_INVALID_ARGUMENT:
      return "invalid argument";
    case FLASHMLA_UNSUPPORTED:
      return "unsupported";
    case FLASHMLA_WORKSPACE_TOO_SMALL:
      return "workspace too small";
    case FLASHMLA_DEVICE_ERROR:
      return "device error";
  }
  return "unknown status";
}
