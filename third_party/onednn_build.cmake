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

# -- what no op of a graph is made of ------------------------------------------------------------

# RNN and LRN. oneDNN has an option for this, which it refuses together with its graphs; what that
# option would have written into the configuration is written here.
function(ogp_leave_out)
    if(NOT DNNL_ENABLE_PRIMITIVE STREQUAL "ALL" OR DNNL_BUILD_TESTS)
        return()
    endif()
    set(template "${PROJECT_SOURCE_DIR}/include/oneapi/dnnl/dnnl_config.h.in")
    set(BUILD_PRIMITIVE_ALL FALSE)
    file(STRINGS "${template}" lines REGEX "^#cmakedefine01 BUILD_[A-Z_]+$")
    foreach(line ${lines})
        string(REGEX REPLACE "^#cmakedefine01 " "" name "${line}")
        # After each option's "ALL" come its values.
        if(name MATCHES "_ALL$")
            set(option "${name}")
        elseif("${option}" STREQUAL "BUILD_PRIMITIVE_ALL")
            set(${name} TRUE)
        endif()
    endforeach()
    set(BUILD_RNN FALSE)
    set(BUILD_LRN FALSE)
    configure_file("${template}" "${PROJECT_BINARY_DIR}/include/oneapi/dnnl/dnnl_config.h")
    ogp_remove(dnnl_cpu "/rnn/|/ref_lrn")
    ogp_remove(dnnl_cpu_x64 "/rnn/|/lrn/")
endfunction()

# Leaves those of a target's sources whose path below src/ matches out of it.
function(ogp_remove target pattern)
    if(NOT TARGET ${target})
        return()
    endif()
    get_target_property(sources ${target} SOURCES)
    get_target_property(directory ${target} SOURCE_DIR)
    foreach(source ${sources})
        file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}/src" "${source}")
        if(path MATCHES "${pattern}" AND path MATCHES "\\.cpp$")
            set_source_files_properties("${source}" DIRECTORY "${directory}"
                PROPERTIES HEADER_FILE_ONLY ON OGP_TAKEN ON)
        endif()
    endforeach()
endfunction()

# -- what is compiled together, and optimised how far ---------------------------------------------

# Each file of a target generates the code of the same inline functions anew (1.5 s for each that
# generates machine code), so files are compiled several at a time.
#
# A row: target, number of united files (0: each alone), optimisation level, which sources (by their
# path below src/; the first row that matches a source takes it).
function(ogp_unite_sources)
    ogp_unite(dnnl_common 3 -O2 "^common/")
    ogp_unite(dnnl_graph_interface 1 -O2 "^graph/interface/")
    # Made once a process.
    ogp_unite(dnnl_graph_backend_dnnl 2 -O1 "/patterns/")
    ogp_unite(dnnl_graph_backend_dnnl 6 -O2 "^graph/")
    # Each names its list as the others do.
    ogp_unite(dnnl_cpu 0 -O2 "^cpu/([a-z]+/)?cpu_[a-z_]+_list")
    # What calls get to run keeps its -O3, and so does what is defined in headers beside it: the
    # linker takes the first copy of an inline function.
    ogp_unite(dnnl_cpu 4 -O3 "^cpu/reorder/")
    ogp_unite(dnnl_cpu 10 -O3 "^cpu/")
    # What generates machine code, which is the same however this is compiled. With -O1 compiling a
    # graph takes 22 % longer; the kernels of gemm are generated once a process.
    ogp_unite(dnnl_cpu_x64 6 -O1 "autogen")
    ogp_unite(dnnl_cpu_x64 0 -O2 "^cpu/x64/gemm/[^/]+/.*_kern\\.cpp")
    ogp_unite(dnnl_cpu_x64 2 -O3 "^cpu/x64/gemm/")
    ogp_unite(dnnl_cpu_x64 18 -O2 "^cpu/x64/")
endfunction()

# Compiles those of a target's sources that match, and that no earlier row took, as `parts` files.
# Macros that a source defines end with it.
function(ogp_unite target parts level pattern)
    if(NOT TARGET ${target})
        return()
    endif()
    get_target_property(sources ${target} SOURCES)
    get_target_property(directory ${target} SOURCE_DIR)
    set(part 0)
    foreach(source ${sources})
        file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}/src" "${source}")
        get_source_file_property(taken "${source}" DIRECTORY "${directory}" OGP_TAKEN)
        if(taken OR NOT path MATCHES "${pattern}" OR NOT path MATCHES "\\.cpp$")
            continue()
        endif()
        set_source_files_properties("${source}" DIRECTORY "${directory}" PROPERTIES OGP_TAKEN ON)
        if(parts)
            # Also for a file that is compiled alone, so that the others stay where they are.
            math(EXPR part "(${part} + 1) % ${parts}")
        endif()
        if(NOT parts OR path IN_LIST OGP_ALONE)
            set_property(SOURCE "${source}" DIRECTORY "${directory}"
                APPEND PROPERTY COMPILE_OPTIONS ${level})
            continue()
        endif()
        string(APPEND text_${part} "#include \"${source}\"\n")
        file(STRINGS "${source}" defined REGEX "^#define ")
        foreach(line ${defined})
            if(line MATCHES "^#define ([A-Za-z_0-9]+)")
                string(APPEND text_${part} "#undef ${CMAKE_MATCH_1}\n")
            endif()
        endforeach()
        set_property(SOURCE "${source}" DIRECTORY "${directory}" PROPERTY HEADER_FILE_ONLY ON)
    endforeach()
    if(NOT parts)
        return()
    endif()
    string(MD5 name "${pattern}")
    string(SUBSTRING "${name}" 0 6 name)
    math(EXPR last "${parts} - 1")
    foreach(part RANGE ${last})
        if(NOT DEFINED text_${part})
            continue()
        endif()
        set(united "${PROJECT_BINARY_DIR}/united/${target}_${name}_${part}.cpp")
        file(CONFIGURE OUTPUT "${united}" CONTENT "${text_${part}}" @ONLY)
        # GCC inlines less in large files, and these are large only because they are several.
        set_property(SOURCE "${united}" DIRECTORY "${directory}"
            PROPERTY COMPILE_OPTIONS ${level} --param=large-unit-insns=200000)
        target_sources(${target} PRIVATE "${united}")
    endforeach()
endfunction()

# These define what others of their row define too, or include what can't follow the others. The
# recipe finds them by trying: it adds those in which the compiler reports an error.
set(OGP_ALONE graph/backend/dnnl/platform.cpp graph/backend/dnnl/patterns/reduction_fusion.cpp
    common/gemm.cpp common/verbose.cpp cpu/simple_sum.cpp cpu/matmul/gemm_bf16_matmul.cpp
    cpu/matmul/gemm_f32_matmul.cpp cpu/matmul/gemm_x8s8s32x_matmul.cpp
    cpu/x64/jit_avx512_core_f16_dw_conv_kernel.cpp
    cpu/x64/jit_avx512_core_x8s8s32x_1x1_conv_kernel.cpp
    cpu/x64/jit_avx512_core_x8s8s32x_conv_kernel.cpp cpu/x64/jit_uni_reorder_utils.cpp
    cpu/x64/jit_uni_resampling.cpp cpu/x64/jit_uni_xf16_sum.cpp
    cpu/x64/matmul/brgemm_matmul.cpp cpu/x64/matmul/brgemm_matmul_reorders.cpp
    cpu/x64/prelu/jit_prelu_reduction_kernel.cpp)
set(OGP_FOUND_ALONE "${CMAKE_BINARY_DIR}/alone.txt")
if(EXISTS "${OGP_FOUND_ALONE}")
    file(STRINGS "${OGP_FOUND_ALONE}" alone)
    list(APPEND OGP_ALONE ${alone})
endif()

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
    ogp_leave_out()
    ogp_unite_sources()
    ogp_precompile_headers()
    ogp_compile_without_collecting("${targets}")
    ogp_align_functions("${targets}")
endfunction()

cmake_language(DEFER CALL ogp_build_faster)
