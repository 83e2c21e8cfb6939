# Sets THINWIRE_TRAINER: whether libtorch is there and wanted (THINWIRE_TORCH = AUTO, ON or OFF).
# Debian's package of Caffe2 asks for static libraries it does not ship; only the shared ones are
# linked, so the search is kept quiet and the libraries are named here.
set(THINWIRE_TORCH AUTO CACHE STRING "Build the trainer: AUTO, ON or OFF")
set_property(CACHE THINWIRE_TORCH PROPERTY STRINGS AUTO ON OFF)

set(THINWIRE_TRAINER OFF)
if(THINWIRE_TORCH)
  find_path(TORCH_ROOT_INCLUDE torch/script.h)
  find_path(TORCH_API_INCLUDE torch/torch.h
            HINTS ${TORCH_ROOT_INCLUDE}/torch/csrc/api/include)
  find_library(TORCH_LIBRARY torch)
  find_library(TORCH_CPU_LIBRARY torch_cpu)
  find_library(C10_LIBRARY c10)
  if(TORCH_ROOT_INCLUDE AND TORCH_API_INCLUDE AND TORCH_LIBRARY AND TORCH_CPU_LIBRARY AND
     C10_LIBRARY)
    set(THINWIRE_TRAINER ON)
    set(TORCH_INCLUDE_DIRS ${TORCH_ROOT_INCLUDE} ${TORCH_API_INCLUDE})
    set(TORCH_LIBRARIES ${TORCH_LIBRARY} ${TORCH_CPU_LIBRARY} ${C10_LIBRARY})
  elseif(NOT THINWIRE_TORCH STREQUAL "AUTO")
    message(FATAL_ERROR "THINWIRE_TORCH=ON, but libtorch-dev was not found. Run `make deps`.")
  endif()
endif()
message(STATUS "trainer: ${THINWIRE_TRAINER}")
