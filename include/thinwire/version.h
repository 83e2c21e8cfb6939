// The version of the library; CMake reads it from here.
#pragma once

#define THINWIRE_VERSION_MAJOR 0
#define THINWIRE_VERSION_MINOR 2
#define THINWIRE_VERSION_PATCH 0
#define THINWIRE_VERSION "0.2.0"
