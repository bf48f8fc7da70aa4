-- summary: "Places where a process is known to stand: by function and file of a frame, or by what the kernel says."
-- grain: one rule
-- columns:
--   nth: {doc: Number of the rule.}
--   spot: {doc: "`collective`, `device`, `data`, `checkpoint`, `compile`, `lock`, `gil`, `exception`, `exit`, `debugger`, `report`, `process`, `network`, `sleep`, `io`."}
--   waits: {doc: Whoever stands there waits for other ranks or for its device.}
--   strong: {doc: "It says why; else (a lock, a queue) the frame around it may say more, and is asked first."}
--   seen_in: {doc: "`frame` or `kernel` (function the thread sleeps in)."}
--   func: {doc: "Function, as a regular expression over the whole of it."}
--   file: {doc: "Part of the path, as a regular expression."}
--   words: {doc: What to call it.}
SELECT nth, spot, waits, strong, seen_in, func, file, words
FROM (VALUES
  -- waits for others. Setting groups up comes first: it is not the collective people look for.
  (10, 'rendezvous', true, true, 'frame', 'init_process_group|new_group|new_subgroups.*|_new_process_group_helper|_store_based_barrier|split_group|init_device_mesh', '(^|/)torch/distributed/', 'process group set-up'),
  (11, 'rendezvous', true, true, 'frame', '.*', '(^|/)torch/distributed/(rendezvous|elastic/rendezvous/.*|elastic/utils/store)\.py$', 'rendezvous'),
  (12, 'exit', false, true, 'frame', 'destroy_process_group|_abort_.*|abort_process_group', '(^|/)torch/distributed/', 'shutdown of the process groups'),
  (20, 'collective', true, true, 'frame', '_?(all_reduce|all_gather|reduce_scatter|broadcast|all_to_all|gather|scatter|reduce|barrier|monitored_barrier|send|recv|isend|irecv|batch_isend_irecv)(_.*)?', '(^|/)torch/distributed/(distributed_c10d|c10d_logger|nn/functional|_functional_collectives|_coalescing_utils|utils)\.py$', 'collective'),
  (21, 'collective', true, true, 'frame', 'wait(_tensor)?|_wait.*|synchronize', '(^|/)torch/(distributed/|_C/_distributed_c10d|ops/c10d)', 'wait for a collective'),
  (22, 'collective', true, true, 'frame', '(_?unshard|_?wait_unshard|wait_for_unshard|_?all_gather.*|foreach_all_gather.*|foreach_reduce.*|_?reduce_(grad|scatter).*|_wait_for_computation_stream|_sync_.*|_pre_forward|_post_backward.*|_root_pre_forward)', '(^|/)torch/distributed/(fsdp|_composable|algorithms|optim)/', 'FSDP communication'),
  (23, 'collective', true, true, 'frame', '_sync_(buffers|params|module_states).*|_pre_forward|_distributed_broadcast_coalesced|notify_join_context|_check_global_requires_backward_grad_sync', '(^|/)torch/nn/parallel/(distributed|join)\.py$', 'DDP communication'),
  (24, 'collective', true, true, 'frame', '.*', '(^|/)torch/distributed/(pipelining|pipeline)/(stage|_utils|schedules)\.py$|(^|/)p2p_communication\.py$', 'pipeline transfer'),
  (25, 'collective', true, true, 'frame', 'all_reduce.*|all_gather.*|reduce.*|broadcast.*|barrier|monitored_barrier|all_to_all.*|gather.*|scatter.*|send|recv|inference_all_reduce', '(^|/)(deepspeed/comm/|deepspeed/runtime/comm/|deepspeed/runtime/pipe/p2p|horovod/|accelerate/utils/operations|accelerate/state|colossalai/|lightning(_fabric)?/.*strategies/|pytorch_lightning/strategies/|megatron/core/(tensor_parallel/mappings|pipeline_parallel|distributed)/)', 'collective'),
  (26, 'collective', true, true, 'frame', '(pnccl|nccl)[A-Z]\w*|.*(c10d::|gloo::).*', '', 'collective'),
  (30, 'device', true, true, 'frame', 'synchronize|wait_event|wait_stream|wait|query', '(^|/)torch/(cuda|xpu|npu|accelerator)/(__init__|streams|graphs)\.py$', 'wait for its device'),
  (31, 'device', true, true, 'frame', '(cu|cuda|hip|acl)\w*[Ss]ynchronize\w*', '', 'wait for its device'),
  (32, 'device', true, true, 'frame', '_engine_run_backward|run_backward', '(^|/)torch/autograd/', 'backward pass'),
  -- host side
  (40, 'data', false, true, 'frame', '.*', '(^|/)(torch/utils/data|torchdata|webdataset|ffcv|litdata|petastorm|streaming/base|nvidia/dali|nvidia_dali|megatron/energon|megatron/core/datasets|datasets/(iterable_dataset|arrow_dataset|arrow_reader|formatting/\w+|table|load|builder|utils/\w+)|torchvision/(io|datasets)|torchaudio|decord|tensorflow/python/data|grain)(/|\.py$)', 'data loading'),
  (41, 'data', false, true, 'frame', '(_?next_(data|batch|sample)|_?get_batch|get_(next_)?batch(_on_this_\w+)?|_?load_(batch|sample|data|example)s?|_?fetch_(batch|data|next)|__getitem__|collate(_fn)?)', '(^|/)[\w.-]*(data|dataset|datasets|dataloader|loader|sampler|corpus)[\w.-]*(/|\.py$)', 'data loading'),
  (42, 'data', false, true, 'frame', '.*', '(^|/)(PIL|cv2|imageio|av|h5py|lmdb|zarr|tifffile|soundfile|librosa|pandas/io|pyarrow/(parquet|dataset|feather))(/|\.py$)', 'data loading'),
  (50, 'checkpoint', false, true, 'frame', '.*', '(^|/)(torch/serialization\.py$|torch/distributed/checkpoint/|torch/distributed/_shard/checkpoint|safetensors/|torchsnapshot/|deepspeed/(runtime/checkpoint_engine|checkpoint)/|megatron/.*(dist_)?checkpoint|nemo/.*checkpoint|lightning.*/(checkpoint_connector|model_checkpoint|checkpoint_io|cloud_io)|orbax/|tensorstore)', 'checkpoint I/O'),
  (51, 'checkpoint', false, true, 'frame', '_?(async_)?(save|load|write|read|upload|restore|export|dump)_?(sharded_|dist_|model_|optimizer_|hf_|full_|zero_)?(checkpoints?|ckpts?|pretrained|state_dict|snapshot|weights)\w*|_?checkpoint', '', 'checkpoint I/O'),
  (52, 'checkpoint', false, true, 'frame', '.*', '(^|/)(huggingface_hub|modelscope/hub)/', 'download of a model'),
  (60, 'compile', false, true, 'frame', '.*', '(^|/)torch/_dynamo/(convert_frame|symbolic_convert|output_graph|bytecode_transformation|bytecode_analysis|guards|side_effects|codegen|resume_execution|variables/.*|backends/.*)(\.py)?$', 'compilation (torch.compile)'),
  (61, 'compile', false, true, 'frame', '_?(compile|codegen|lower|benchmark|autotune|trace|partition|build|schedule|fuse|precompile|do_bench|load_by_key|run_node|fx_codegen|dispatch_and_compile|aot_|min_cut|wait|result|get_kernel|proxy_call).*|.*_compile\w*', '(^|/)torch/(_inductor|_functorch/_aot_autograd|_functorch/partitioners|fx/experimental/(proxy_tensor|symbolic_shapes))', 'compilation (torch.compile)'),
  (62, 'compile', false, true, 'frame', '.*', '(^|/)triton/(compiler|backends|runtime/(build|cache|autotuner))', 'compilation (Triton)'),
  (63, 'compile', false, true, 'frame', '.*', '(^|/)torch/utils/(cpp_extension|_cpp_extension_versioner|hipify/.*|file_baton)\.py$', 'build of an extension'),
  (70, 'debugger', false, true, 'frame', '.*', '(^|/)(i?pdb|bdb|pudb|debugpy|pydevd\w*)(/|\.py$)', 'debugger'),
  (71, 'exception', false, true, 'frame', '.*', '(^|/)(traceback|linecache|sentry_sdk/.*|rich/traceback)(\.py)?$|(^|/)torch/distributed/elastic/multiprocessing/errors/', 'exception handling'),
  (72, 'exception', false, true, 'frame', '\w*excepthook|_?handle_(exception|error|oom|crash)\w*|on_exception|_call_teardown_hook', '', 'exception handling'),
  (73, 'exit', false, true, 'frame', '_shutdown|_python_exit|_exit_function|_run_exitfuncs|_bootstrap_exit', '(^|/)(threading|multiprocessing/util|concurrent/futures/\w+|atexit)\.py$', 'end of the process'),
  (80, 'gil', false, true, 'frame', 'take_gil|PyGILState_Ensure|PyEval_RestoreThread|PyEval_AcquireThread', '', 'wait for the interpreter lock (GIL)'),
  (81, 'report', false, true, 'frame', '.*', '(^|/)(wandb|mlflow|neptune|comet_ml|clearml|swanlab|tensorboardX?|torch/utils/tensorboard)(/|\.py$)', 'metrics logging'),
  (82, 'lock', false, true, 'frame', '.*', '(^|/)(filelock|fasteners|portalocker)(/|\.py$)|(^|/)torch/utils/_filelock\.py$', 'file lock'),
  -- weak: what stands around it says more
  (90, 'process', false, false, 'frame', 'wait|_wait|_try_wait|communicate|_communicate|join|poll', '(^|/)(subprocess|multiprocessing/(popen_\w+|process|pool))\.py$', 'wait for another process'),
  (91, 'process', false, false, 'frame', 'recv|recv_bytes|_recv|_recv_bytes|poll|_poll|wait', '(^|/)multiprocessing/connection\.py$', 'wait for another process'),
  (92, 'lock', false, false, 'frame', 'acquire|__enter__|wait|wait_for|join|_wait_for_tstate_lock|_join_thread|_acquire_restore', '(^|/)(threading|multiprocessing/synchronize)\.py$', 'lock'),
  (93, 'lock', false, false, 'frame', 'get|put|result|exception|join|wait|as_completed', '(^|/)(queue|multiprocessing/queues|concurrent/futures/_base)\.py$', 'wait for another thread'),
  (94, 'lock', false, false, 'frame', '(__)?(futex\w*|pthread_cond_\w*wait\w*|lll_lock_wait\w*|pthread_mutex_lock\w*|sem_wait\w*)|do_futex_wait\w*', '', 'lock'),
  (95, 'network', false, false, 'frame', '.*', '(^|/)(socket|ssl|selectors|http/client|urllib/request|requests/.*|urllib3/.*|aiohttp/.*|httpx/.*|httpcore/.*|botocore/.*|s3fs/.*|gcsfs/.*|fsspec/.*|google/cloud/.*|aiobotocore/.*|asyncio/.*)\.py$', 'network'),
  (96, 'io', false, false, 'frame', '.*', '(^|/)(shutil|zipfile(/__init__)?|tarfile|gzip|lzma|bz2|pathlib|glob|numpy/lib/_?(npyio|format)(_impl)?)\.py$', 'file I/O'),
  (97, 'io', false, false, 'frame', 'emit|flush|_?write\w*', '(^|/)logging/', 'log output'),
  (98, 'sleep', false, false, 'frame', '(__)?(clock_)?nanosleep\w*|sleep', '', 'sleep'),
  (110, 'io', false, false, 'kernel', '.*(nfs|rpc_wait|lustre|ll_|cl_|gpfs|ceph|fuse_|cifs|smb|9p_|beegfs|wekafs|folio_wait|wait_on_page|wait_on_buffer|io_schedule|blkdev|jbd2|ext4_|xfs_|btrfs_|rq_qos|balance_dirty).*', '', 'file I/O'),
  (111, 'io', false, false, 'kernel', '(anon_)?pipe_(write|read)|wait_for_partner|fifo_open|tty_\w+|n_tty_\w+', '', 'pipe'),
  (112, 'sleep', false, false, 'kernel', '.*nanosleep.*', '', 'sleep'),
  (113, 'lock', false, false, 'kernel', '.*(futex|flock|posix_lock|fcntl_setlk|locks_).*', '', 'lock'),
  (114, 'network', false, false, 'kernel', '.*(sk_wait|inet_csk|tcp_|unix_stream|wait_for_more_packets|skb_wait).*', '', 'network'),
  (115, 'process', false, false, 'kernel', '(do_|kernel_)?wait4?|do_wait\w*', '', 'wait for another process')
) AS rule(nth, spot, waits, strong, seen_in, func, file, words)
