# Sets THINWIRE_TRAINER: whether libtorch is there and wanted (THINWIRE_TORCH = AUTO, ON or OFF).
# Debian's package of Caffe2 asks for static libraries it does not ship; only the shared ones are
# linked, so the search is kept quiet and the libraries are named here. The libtorch inside a wheel
# of PyTorch is found with -DCMAKE_PREFIX_PATH=VENV/lib/python3.11/site-packages/torch.
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
    # That libtorch brings the headers of another fmt, which must not hide those of the fmt that we
    # link: its headers are included through links to all of them except fmt.
    if(EXISTS ${TORCH_ROOT_INCLUDE}/fmt AND
       NOT TORCH_ROOT_INCLUDE IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
      set(include ${CMAKE_CURRENT_BINARY_DIR}/rooms/torch)
      file(MAKE_DIRECTORY ${include})
      file(GLOB headers ${TORCH_ROOT_INCLUDE}/*)
      list(REMOVE_ITEM headers ${TORCH_ROOT_INCLUDE}/fmt)
      foreach(header IN LISTS headers)
        cmake_path(GET header FILENAME name)
        file(CREATE_LINK ${header} ${include}/${name} SYMBOLIC)
      endforeach()
      set(TORCH_INCLUDE_DIRS ${include} ${include}/torch/csrc/api/include)
      # It also exports the functions of another Gloo. A program calls those of the library that it
      # loads first, so that ours has to be the first one.
      if(NOT "gloo" IN_LIST THINWIRE_TRANSPORTS_MISSING)
        add_link_options(LINKER:--push-state,--no-as-needed,$<TARGET_FILE:gloo>,--pop-state)
      endif()
    else()
      set(TORCH_INCLUDE_DIRS ${TORCH_ROOT_INCLUDE} ${TORCH_API_INCLUDE})
    endif()
    set(TORCH_LIBRARIES ${TORCH_LIBRARY} ${TORCH_CPU_LIBRARY} ${C10_LIBRARY})
  elseif(NOT THINWIRE_TORCH STREQUAL "AUTO")
    message(FATAL_ERROR "THINWIRE_TORCH=ON, but libtorch-dev was not found. Run `make deps`.")
  endif()
endif()
message(STATUS "trainer: ${THINWIRE_TRAINER}")
