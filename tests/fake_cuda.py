"""A stand-in for one CUDA device, to test on a machine without a GPU what a GPU refuses.

Import this before torch; `gpu = install()` makes `cuda:0` available in this process. Three parts:
a library in C++ with a device guard, hooks and a generator, which autograd and `torch.Generator`
ask for; `Cuda`, a tensor that says it is on `cuda:0` and holds its data on the CPU; and `FakeGPU`,
a mode that sees every operation, refuses operands on two devices, numpy and a generator of another
device, computes on the CPU, and counts kernels and waits by the line of the package.
"""
import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

CPP = r'''
#include <ATen/core/Generator.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
using namespace c10;
static const Device gpu(DeviceType::CUDA, 0);

struct Guard final : impl::DeviceGuardImplInterface {   // one device, one stream
  DeviceType type() const override { return DeviceType::CUDA; }
  Device exchangeDevice(Device) const override { return gpu; }
  Device getDevice() const override { return gpu; }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  Stream getStream(Device) const override { return Stream(Stream::DEFAULT, gpu); }
  Stream getDefaultStream(Device) const override { return Stream(Stream::DEFAULT, gpu); }
  Stream getNewStream(Device, int) const override { return Stream(Stream::DEFAULT, gpu); }
  Stream exchangeStream(Stream) const override { return Stream(Stream::DEFAULT, gpu); }
  DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const Stream&, const DeviceIndex, const EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(const DeviceIndex) const override {}
};

struct Gen final : GeneratorImpl {                       // a CPU generator that says cuda:0
  at::Generator cpu = at::detail::createCPUGenerator();
  Gen() : GeneratorImpl(gpu, DispatchKeySet(DispatchKey::CUDA)) {}
  void set_current_seed(uint64_t s) override { cpu.set_current_seed(s); }
  void set_offset(uint64_t) override {}
  uint64_t get_offset() const override { return 0; }
  uint64_t current_seed() const override { return cpu.current_seed(); }
  uint64_t seed() override { return cpu.seed(); }
  void set_state(const TensorImpl& s) override { cpu.unsafeGetGeneratorImpl()->set_state(s); }
  intrusive_ptr<TensorImpl> get_state() const override {
    return cpu.unsafeGetGeneratorImpl()->get_state(); }
  GeneratorImpl* clone_impl() const override {
    auto g = new Gen(); g->set_state(*get_state()); return g; }
};

struct Hooks final : at::CUDAHooksInterface {
  Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  int getNumGPUs() const override { return 1; }
  DeviceIndex current_device() const override { return 0; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  std::string showConfig() const override { return "stand-in"; }
  const at::Generator& getDefaultGenerator(DeviceIndex) const override {
    static at::Generator g = at::make_generator<Gen>(); return g; }
  at::Generator getNewGenerator(DeviceIndex) const override { return at::make_generator<Gen>(); }
};
namespace at {
  using FakeHooks = Hooks;
  C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, FakeHooks)
}
namespace c10::impl { using FakeGuard = Guard; C10_REGISTER_GUARD_IMPL(CUDA, FakeGuard) }
'''


def load_library():
    "Compile the C++ part once per version of torch, and load it; torch asks for it on its import"
    if 'torch' in sys.modules: raise ImportError('import fake_cuda before torch')
    root = Path(find_spec('torch').origin).parent
    version = (root/'version.py').read_text()
    folder = Path(sys.prefix)/'fake_cuda'
    library = folder/f'{hashlib.sha256((CPP + version).encode()).hexdigest()[:16]}.so'
    if not library.exists():
        folder.mkdir(exist_ok=True)
        part = folder/f'{library.stem}.{threading.get_native_id()}'
        headers = f'-I{root}/include', f'-I{root}/include/torch/csrc/api/include'
        links = f'-L{root}/lib', f'-Wl,-rpath,{root}/lib', '-ltorch_cpu', '-lc10'
        options = '-std=c++20', '-fPIC', '-shared', *headers
        subprocess.run([shutil.which('g++'), *options, '-x', 'c++', '-', '-o', part, *links],
                       input=CPP, text=True, check=True)
        part.rename(library)
    ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)


load_library()
import torch                                                       # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes   # noqa: E402


def nested(f, x):
    "f of everything in lists, tuples and dicts"
    if isinstance(x, dict): return {k: nested(f, y) for k, y in x.items()}
    if not isinstance(x, (list, tuple)): return f(x)
    parts = [nested(f, y) for y in x]
    if isinstance(x, list): return parts
    return type(x)(*parts) if hasattr(x, '_fields') else tuple(parts)


def leaves(x):
    "Everything in lists, tuples and dicts, as one list"
    found = []
    nested(found.append, x)
    return found


class Cuda(torch.Tensor):
    "A tensor that says it is on cuda:0; `inner` holds its data on the CPU"
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner):
        layout = dict(layout=inner.layout, dispatch_layout=True)
        if inner.layout == torch.strided:
            layout = dict(strides=inner.stride(), storage_offset=inner.storage_offset())
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype,
                                                   device='cuda:0', **layout)

    def __init__(self, inner): self.inner = inner

    def numpy(self, *, force=False):
        if force: return self.cpu().numpy()
        raise TypeError("can't convert cuda:0 device type tensor to numpy. "
                        'Use Tensor.cpu() to copy the tensor to host memory first.')

    def tolist(self): return self.detach().cpu().tolist()
    def __array__(self, *_, **__): return self.numpy()
    def __repr__(self, **_): return f'Cuda({self.inner!r})'
    __str__ = __repr__
    def __reduce_ex__(self, protocol): return self.inner.detach().__reduce_ex__(protocol)

    def __deepcopy__(self, memo):
        new = Cuda(self.inner.detach().clone()).requires_grad_(self.requires_grad)
        if getattr(self, '_is_param', False): new._is_param = True
        return new

    @property
    def data(self): return self.detach()

    @data.setter
    def data(self, new):
        if not isinstance(new, Cuda) or new.shape != self.shape:
            raise NotImplementedError('data of another device or shape')
        self.inner = new.inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None): return run(func, args, kwargs)


class FakeGPU(TorchDispatchMode):
    "The rules of a GPU for every operation, and what it counts"
    @classmethod
    def _should_skip_dynamo(cls): return False

    def __init__(self):
        super().__init__()
        self.shared = False
        self.reset()

    def reset(self): self.kernels, self.waits = Counter(), Counter()
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        plain = Cuda not in types and not {'device', 'generator'} & kwargs.keys()
        return func(*args, **kwargs) if plain else run(func, args, kwargs)


gpu = FakeGPU()
INDEXING = {'index', 'index_put', 'index_put_', '_index_put_impl_', '_unsafe_index',
            '_unsafe_index_put'}
TAKES_SCALARS = {'fill_', 'fill', 'masked_fill', 'masked_fill_', 'where', 'index_fill_', 'clamp',
                 *INDEXING}
WAITS = {'_local_scalar_dense', 'nonzero', 'masked_select', '_unique2', 'unique_consecutive',
         'unique_dim', 'bincount', 'equal', 'is_nonzero', 'repeat_interleave',
         '_sparse_coo_tensor_with_dims_and_tensors'}
NO_KERNEL = {'detach', 'lift_fresh', 'alias', 'empty', 'empty_like', 'new_empty', '_unsafe_view',
             '_local_scalar_dense', '_to_copy', 'empty_strided'}
COPIES = '_to_copy', 'copy_', 'copy'


def line():
    "The line of the package that is running"
    frame = sys._getframe(1)
    while frame is not None:
        folder, _, name = frame.f_code.co_filename.rpartition(os.sep)
        if folder.endswith('dmns_nb'): return f'{name}:{frame.f_lineno}'
        frame = frame.f_back
    return 'autograd'


def check_devices(func, name, args, tensors):
    "Refuse operands on two devices, but for scalars and indices where a GPU takes them"
    plain = [t for t in tensors if not isinstance(t, Cuda)]
    if name in COPIES or name == '_foreach_copy_': return
    if name in INDEXING:
        if not isinstance(args[0], Cuda):
            raise RuntimeError('indices should be either on cpu or on the same device as the '
                               'indexed tensor (cpu)')
        plain = [t for t in plain if not any(t is i for i in args[1])]
    scalars = torch.Tag.pointwise in func.tags or name in TAKES_SCALARS
    if scalars or name.startswith('_foreach'): plain = [t for t in plain if t.dim()]
    if plain:
        raise RuntimeError('Expected all tensors to be on the same device, but found at least two '
                           f'devices, cuda:0 and cpu! ({func})')


def count(func, name, args, kwargs, to_gpu):
    "Count a kernel, and a wait if the program needs a result or sends data before it goes on"
    mask = lambda i: isinstance(i, Cuda) and i.dtype in (torch.bool, torch.uint8)
    if name in COPIES:
        source = args[0] if name == '_to_copy' else args[1]
        within = isinstance(source, Cuda) and (to_gpu if name == '_to_copy'
                                               else isinstance(args[0], Cuda))
        if within: gpu.kernels[line()] += 1
        else: gpu.waits['copy', line()] += 1
        return
    if name in WAITS and kwargs.get('output_size') is None: gpu.waits[name, line()] += 1
    if name in INDEXING:
        filled = name != 'index' and args[2].numel() == 1 and not isinstance(args[2], Cuda)
        if any(map(mask, args[1])) and not filled: gpu.waits['mask', line()] += 1
        if any(i is not None and not isinstance(i, Cuda) for i in args[1]):
            gpu.waits['copy', line()] += 1
    if to_gpu and not func.is_view and name not in NO_KERNEL: gpu.kernels[line()] += 1


def draw(func, args, kwargs, generators):
    "A random operation, by the generator of the GPU"
    own = generators[0] if generators else torch.cuda.default_generators[0]
    kept = torch.get_rng_state()
    torch.set_rng_state(own.get_state())
    try: return func(*args, **kwargs)
    finally:
        own.set_state(torch.get_rng_state())
        torch.set_rng_state(kept)


def run(func, args, kwargs):
    "One operation: on the CPU as it is, on the GPU by its rules"
    kwargs = kwargs or {}
    if func is torch.ops.prim.layout.default: return args[0].inner.layout
    if func is torch.ops.prim.device.default: return torch.device('cuda', 0)
    name, flat = func._schema.name.removeprefix('aten::'), leaves((args, kwargs))
    tensors = [t for t in flat if isinstance(t, torch.Tensor)]
    on_gpu, asked = any(isinstance(t, Cuda) for t in tensors), kwargs.get('device')
    target = torch.device(asked).type if asked is not None else 'cuda' if on_gpu else 'cpu'
    generators = [g for g in flat if isinstance(g, torch.Generator)]
    for g in generators:
        if g.device.type != target:
            raise RuntimeError(f"Expected a '{target}' device type for generator but found "
                               f"'{g.device.type}'")
    if not on_gpu and target == 'cpu': return func(*args, **kwargs)
    if on_gpu: check_devices(func, name, args, tensors)
    count(func, name, args, kwargs, target == 'cuda')

    def bare(x):
        if isinstance(x, Cuda): return x.inner
        if isinstance(x, torch.device): return torch.device('cpu')
        return None if isinstance(x, torch.Generator) else x
    inner_args, inner_kwargs = nested(bare, (args, kwargs))
    if 'pin_memory' in inner_kwargs: inner_kwargs['pin_memory'] = None
    random = torch.Tag.nondeterministic_seeded in func.tags and target == 'cuda'
    with _disable_current_modes():
        if random and (generators or not gpu.shared):
            out = draw(func, inner_args, inner_kwargs, generators)
        else: out = func(*inner_args, **inner_kwargs)
    if name == '_local_scalar_dense': return out
    wrappers = {id(t.inner): t for t in tensors if isinstance(t, Cuda)}   # of operations in place

    def wrap(x):
        if not isinstance(x, torch.Tensor) or target != 'cuda': return x
        return wrappers[id(x)] if id(x) in wrappers else Cuda(x)
    return nested(wrap, out)


def keep_optimizers(apply):
    "`Module._apply`, after which the optimizers that modules hold have the moved parameters"
    def moved(self, *args, **kwargs):
        before = {name: p for name, p in self.named_parameters()}
        apply(self, *args, **kwargs)
        new = {id(before[name]): p for name, p in self.named_parameters()}
        for module in self.modules():
            if (optimizer := getattr(module, 'optimizer', None)) is None: continue
            for group in optimizer.param_groups:
                group['params'] = [new.get(id(p), p) for p in group['params']]
        return self
    return moved


def install(shared=False):
    "Make cuda:0 available; `shared`: it draws from the CPU's generator, to compare numbers"
    gpu.shared = shared
    default = torch.Generator('cuda')
    seed = lambda s: default.manual_seed(int(s))
    torch.cuda.default_generators = (default,)
    for name, value in dict(
            _lazy_init=lambda: None, is_available=lambda: True, device_count=lambda: 1,
            current_device=lambda: 0, is_initialized=lambda: True, _is_in_bad_fork=lambda: False,
            set_device=lambda d: None, synchronize=lambda d=None: None, manual_seed=seed,
            manual_seed_all=seed, get_rng_state=lambda d='cuda': default.get_state(),
            set_rng_state=lambda s, d='cuda': default.set_state(s.clone()),
            is_current_stream_capturing=lambda: False).items():
        setattr(torch.cuda, name, value)
        if hasattr(torch.cuda.random, name): setattr(torch.cuda.random, name, value)
    for name in ('optim.optimizer', 'utils._foreach_utils'):   # Adam: all parameters together
        import_module(f'torch.{name}')._foreach_supported_types.append(Cuda)
    torch.__future__.set_overwrite_module_params_on_conversion(True)   # a parameter is replaced
    torch.nn.Module._apply = keep_optimizers(torch.nn.Module._apply)
    torch._C._set_only_lift_cpu_tensors(True)          # torch.tensor(…, device='cuda') copies
    gpu.__enter__()
    return gpu
