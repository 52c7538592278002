// What the fake driver offers besides the functions of the real one.
#pragma once

extern "C" {

// Whether the address is inside an allocation of cuMemAlloc_v2.
int fake_is_device_memory(const void* pointer);

// From now on waiting fails as it does after a kernel that read where it must not.
void fake_lose_device();
}
