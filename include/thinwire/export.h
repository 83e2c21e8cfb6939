// Marks what the shared library exports. All other symbols are hidden.
#pragma once

#define TW_EXPORT __attribute__((visibility("default")))
