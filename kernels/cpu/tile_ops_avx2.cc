#include "kernels/cpu/tile_ops.h"
