// The matrix and recipes of these sources, read once.
#pragma once

#include "orchestrator/schema/checkout.h"

namespace sweep::test {

inline const schema::Checkout& repository() {
  static const schema::Checkout kCheckout = schema::load_checkout(SWEEP_SOURCE_DIR);
  return kCheckout;
}

}  // namespace sweep::test
