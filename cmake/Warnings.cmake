# One interface target carries the warnings and sanitizers of our own code.
option(THINWIRE_WERROR "Treat warnings as errors" OFF)
option(THINWIRE_FUZZ "Build the programs of libFuzzer (needs clang)" OFF)
set(THINWIRE_SANITIZE "" CACHE STRING "Sanitizers, such as address,undefined or thread")

add_library(thinwire_warnings INTERFACE)
target_compile_options(thinwire_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local> -Wnon-virtual-dtor -Woverloaded-virtual
  $<$<BOOL:${THINWIRE_WERROR}>:-Werror>)
# GCC 12 finds overlaps in std::string's operator+ that are not there (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(thinwire_warnings INTERFACE -Wno-restrict)
endif()

if(THINWIRE_SANITIZE)
  if(THINWIRE_SANITIZE MATCHES "thread" AND THINWIRE_SANITIZE MATCHES "address")
    message(FATAL_ERROR "THINWIRE_SANITIZE: thread and address exclude each other")
  endif()
  add_compile_options(-fsanitize=${THINWIRE_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${THINWIRE_SANITIZE})
  if(THINWIRE_FUZZ)  # libFuzzer wants to see which branches an input takes
    add_compile_options(-fsanitize=fuzzer-no-link)
  endif()
  # Kernels are compiled once per width of vectors, which takes long. No byte depends on the width,
  # no kernel has threads; out of bounds they can only be where they run, and few machines have the
  # widest.
  if(THINWIRE_FUZZ OR THINWIRE_SANITIZE MATCHES "thread")
    add_compile_definitions(HWY_COMPILE_ONLY_STATIC)
  else()
    add_compile_definitions("HWY_DISABLED_TARGETS=(HWY_AVX3|HWY_AVX3_DL)")
  endif()
endif()
