# Makes oneDNN's build take less time, without a change to its sources or to what runs later.
#
# CMake includes this after oneDNN's project(), as the recipe names it in
# CMAKE_PROJECT_oneDNN_INCLUDE; what is done here waits until all of oneDNN's targets are defined.

# GCC only: nobody has measured or tried others. CMake 3.19 brought DEFER.
if(NOT CMAKE_BUILD_TYPE STREQUAL "Release"
        OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
        OR CMAKE_VERSION VERSION_LESS 3.19)
    return()
endif()

# -- what is optimised how far -------------------------------------------------------------------

# Sets an optimisation level for those of a target's sources whose path below src/ matches.
function(ogp_optimize target level pattern)
    if(NOT TARGET ${target})
        return()
    endif()
    get_target_property(sources ${target} SOURCES)
    get_target_property(directory ${target} SOURCE_DIR)
    foreach(source ${sources})
        file(RELATIVE_PATH name "${PROJECT_SOURCE_DIR}/src" "${source}")
        if(name MATCHES "${pattern}")
            set_property(SOURCE "${source}" DIRECTORY "${directory}"
                APPEND PROPERTY COMPILE_OPTIONS ${level})
        endif()
    endforeach()
endfunction()

function(ogp_optimization_levels)
    # What calls get to run keeps its -O3, and so does what is defined in headers beside it: the
    # linker takes the first copy of an inline function. Of RNN and LRN no op of a graph is made.
    ogp_optimize(dnnl_cpu -O1 "/rnn/|/ref_lrn")
    # Made once a process.
    ogp_optimize(dnnl_graph_backend_dnnl -O1 "/patterns/")
    # What generates machine code, which is the same however this is compiled. With -O1 compiling a
    # graph takes 22 % longer; the kernels of gemm are generated once a process.
    ogp_optimize(dnnl_cpu_x64 -O2
        "kern(el)?[_a-z0-9]*\\.cpp$|/injectors/|/brgemm/jit_|fp8cvt|(transpose|copy)_utils")
    ogp_optimize(dnnl_cpu_x64 -O2 "post_ops|convert_xf16")
    ogp_optimize(dnnl_cpu_x64 -O1 "autogen|/rnn/|/lrn/")
endfunction()

# -- headers that most files of a target include, compiled once ----------------------------------

set(OGP_HEADERS_dnnl_common
    common/primitive_desc.hpp common/type_helpers.hpp common/verbose.hpp common/engine.hpp)
set(OGP_HEADERS_dnnl_cpu
    common/primitive.hpp common/dnnl_thread.hpp common/memory.hpp common/type_helpers.hpp
    cpu/cpu_engine.hpp)
set(OGP_HEADERS_dnnl_cpu_x64
    ${OGP_HEADERS_dnnl_cpu} cpu/x64/jit_generator.hpp)
set(OGP_HEADERS_dnnl_graph_interface
    graph/interface/backend.hpp graph/interface/op_schema.hpp graph/interface/partition.hpp)
set(OGP_HEADERS_dnnl_graph_backend_dnnl
    graph/interface/backend.hpp graph/interface/partition.hpp graph/backend/dnnl/common.hpp
    graph/backend/dnnl/dnnl_partition_impl.hpp graph/backend/dnnl/subgraph.hpp
    graph/backend/dnnl/utils.hpp graph/utils/pm/pbuilder.hpp)

# Files that do without the headers of their target. The backend's define data_type anew, where
# this one uses the library's.
set(OGP_WITHOUT_HEADERS graph/backend/dnnl/platform.cpp)

function(ogp_precompile_headers)
    foreach(target dnnl_common dnnl_cpu dnnl_cpu_x64 dnnl_graph_interface dnnl_graph_backend_dnnl)
        if(NOT TARGET ${target})
            continue()
        endif()
        # Other versions of oneDNN may lack some.
        set(headers)
        foreach(header ${OGP_HEADERS_${target}})
            if(EXISTS "${PROJECT_SOURCE_DIR}/src/${header}")
                list(APPEND headers
                    "$<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/src/${header}>")
            endif()
        endforeach()
        target_precompile_headers(${target} PRIVATE ${headers})
        get_target_property(directory ${target} SOURCE_DIR)
        foreach(source ${OGP_WITHOUT_HEADERS})
            set_property(SOURCE "${PROJECT_SOURCE_DIR}/src/${source}" DIRECTORY "${directory}"
                PROPERTY SKIP_PRECOMPILE_HEADERS ON)
        endforeach()
        if(CMAKE_CXX_COMPILER_LAUNCHER)
            # What ccache needs to tell which headers a file was compiled with.
            target_compile_options(${target} PRIVATE
                "$<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>")
        endif()
    endforeach()
endfunction()

# -- files compiled together ---------------------------------------------------------------------

# Each file of a target generates the code of the same inline functions anew (1.5 s for each that
# generates machine code). Only of these versions it is known that their files can be one.
set(OGP_UNITED_VERSIONS 3.7)

# Compiles those of a target's sources whose path below src/ matches as `parts` files. Macros that a
# source defines end with it.
function(ogp_unite target name parts pattern)
    if(NOT TARGET ${target})
        return()
    endif()
    get_target_property(sources ${target} SOURCES)
    get_target_property(directory ${target} SOURCE_DIR)
    set(matching)
    foreach(source ${sources})
        file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}/src" "${source}")
        if(path MATCHES "${pattern}" AND path MATCHES "\\.cpp$" AND NOT path IN_LIST OGP_ALONE)
            list(APPEND matching "${source}")
        endif()
    endforeach()
    set(part 0)
    foreach(source ${matching})
        set(text "#include \"${source}\"\n")
        file(STRINGS "${source}" defined REGEX "^#define ")
        foreach(line ${defined})
            if(line MATCHES "^#define ([A-Za-z_0-9]+)")
                string(APPEND text "#undef ${CMAKE_MATCH_1}\n")
            endif()
        endforeach()
        string(APPEND text_${part} "${text}")
        set_property(SOURCE "${source}" DIRECTORY "${directory}" PROPERTY HEADER_FILE_ONLY ON)
        math(EXPR part "(${part} + 1) % ${parts}")
    endforeach()
    if(NOT matching)
        return()
    endif()
    math(EXPR last "${parts} - 1")
    foreach(part RANGE ${last})
        set(united "${PROJECT_BINARY_DIR}/united/${target}_${name}_${part}.cpp")
        file(CONFIGURE OUTPUT "${united}" CONTENT "${text_${part}}" @ONLY)
        # GCC inlines less in large files, and these are large only because they are several.
        set_property(SOURCE "${united}" DIRECTORY "${directory}"
            PROPERTY COMPILE_OPTIONS ${ARGN} --param=large-unit-insns=200000)
        target_sources(${target} PRIVATE "${united}")
    endforeach()
endfunction()

# These define what others of their target define too, or include what can't follow the others.
set(OGP_ALONE graph/backend/dnnl/platform.cpp graph/backend/dnnl/patterns/reduction_fusion.cpp
    common/gemm.cpp common/verbose.cpp cpu/x64/lrn/jit_avx512_common_lrn_fwd_base.cpp
    cpu/x64/prelu/jit_prelu_reduction_kernel.cpp)

function(ogp_unite_sources)
    set(version "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
    if(NOT version IN_LIST OGP_UNITED_VERSIONS)
        return()
    endif()
    ogp_unite(dnnl_common all 2 "^common/")
    ogp_unite(dnnl_graph_interface all 1 "^graph/interface/")
    ogp_unite(dnnl_graph_backend_dnnl top 1 "^graph/backend/dnnl/[a-z_]+\\.cpp")
    ogp_unite(dnnl_graph_backend_dnnl kernels 2 "^graph/backend/dnnl/kernels/")
    ogp_unite(dnnl_graph_backend_dnnl passes 1 "^graph/backend/dnnl/passes/")
    ogp_unite(dnnl_graph_backend_dnnl patterns 1 "^graph/backend/dnnl/patterns/" -O1)
    ogp_unite(dnnl_cpu reorder 3 "^cpu/reorder/")
    ogp_unite(dnnl_cpu matmul 1 "^cpu/matmul/")
    ogp_unite(dnnl_cpu_x64 gemm_f32 2 "^cpu/x64/gemm/f32/.*autogen" -O1)
    ogp_unite(dnnl_cpu_x64 gemm_bf16 1 "^cpu/x64/gemm/bf16/.*autogen" -O1)
    ogp_unite(dnnl_cpu_x64 gemm_s8 2 "^cpu/x64/gemm/s8x8s32/.*autogen" -O1)
    ogp_unite(dnnl_cpu_x64 prelu 1 "^cpu/x64/(prelu|shuffle)/")
    ogp_unite(dnnl_cpu_x64 lrn 1 "^cpu/x64/lrn/" -O1)
    ogp_unite(dnnl_cpu_x64 rnn 1 "^cpu/x64/rnn/" -O1)
endfunction()

# -- GCC's memory --------------------------------------------------------------------------------

function(ogp_compile_without_collecting targets)
    # Up to this much memory (KiB) GCC doesn't look for what it could free; 128 MiB by itself. It
    # shares the machine with one more of its kind for each other core.
    cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY)
    cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
    math(EXPR each "${memory} / ${cores}")
    if(each GREATER 2000)
        foreach(target ${targets})
            target_compile_options(${target} PRIVATE
                "$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=600000>")
        endforeach()
    endif()
endfunction()

# -- where functions begin ------------------------------------------------------------------------

# A small loop took 14 % longer where its function began between two blocks of 32 bytes, which
# depends on what is linked before it.
function(ogp_align_functions targets)
    foreach(target ${targets})
        target_compile_options(${target} PRIVATE
            "$<$<COMPILE_LANGUAGE:CXX>:-falign-functions=32>")
    endforeach()
endfunction()

function(ogp_build_faster)
    set(targets)
    foreach(target dnnl_common dnnl_cpu dnnl_cpu_x64 dnnl_graph_interface dnnl_graph_backend_dnnl
            dnnl_graph_utils dnnl_graph_utils_pm)
        if(TARGET ${target})
            list(APPEND targets ${target})
        endif()
    endforeach()
    ogp_optimization_levels()
    ogp_unite_sources()
    ogp_precompile_headers()
    ogp_compile_without_collecting("${targets}")
    ogp_align_functions("${targets}")
endfunction()

cmake_language(DEFER CALL ogp_build_faster)
