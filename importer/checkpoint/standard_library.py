"""What of Python's standard library makes data and does nothing else when it is called: a list of names, never of modules.

A class or function is here if calling it with anything a pickle can hold does no more than make an object: no file, process,
network or setting of the program is touched, nothing the file brings along is run. Enumerations, named tuples, exceptions,
records of the system, iterators, and the parts that closures are made of. What is not here counts as running code
(`conduct`). Not here: third-party code, of which nobody knows what it does.

The names are those of Python 2.7 to 3.14. `tests/checkpoint/test_standard_library.py` holds the list against the Python at
hand.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

__all__ = ["MAKES_DATA", "RUNS", "STANDARD_LIBRARY", "canonical_module"]

_ALIASES: Mapping[str, str] = {
    "__builtin__": "builtins",
    "__builtins__": "builtins",
    "exceptions": "builtins",
    "copy_reg": "copyreg",
    "_collections": "collections",
    "_collections_abc": "collections.abc",
    "UserDict": "collections",
    "UserList": "collections",
    "UserString": "collections",
    "_datetime": "datetime",
    "_pydatetime": "datetime",
    "_decimal": "decimal",
    "_pydecimal": "decimal",
    "_functools": "functools",
    "_io": "io",
    "_pyio": "io",
    "StringIO": "io",
    "cStringIO": "io",
    "_operator": "operator",
    "_random": "random",
    "_sre": "re",
    "sre": "re",
    "sre_compile": "re",
    "sre_constants": "re",
    "_struct": "struct",
    "_ast": "ast",
    "_queue": "queue",
    "Queue": "queue",
    "sets": "builtins",
    "nt": "os",
    "posix": "os",
    "_socket": "socket",
    "_ssl": "ssl",
    "_signal": "signal",
    "_typing": "typing",
    "_types": "types",
    "new": "types",
    "pathlib._local": "pathlib",
    "pathlib._abc": "pathlib",
    "pathlib.types": "pathlib",
    "zoneinfo._zoneinfo": "zoneinfo",
    "_zoneinfo": "zoneinfo",
    "re._compiler": "re",
    "re._constants": "re",
    "dill.dill": "dill._dill",
    "annotationlib": "typing",
}


def canonical_module(module: str) -> str:
    """Return the name under which a module is listed here: old spellings and the C halves of modules are one with them."""
    return _ALIASES.get(module, module)


_EXCEPTIONS = """
ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError BrokenPipeError BufferError
BytesWarning ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError ConnectionResetError
DeprecationWarning EOFError EncodingWarning EnvironmentError Exception ExceptionGroup FileExistsError FileNotFoundError
FloatingPointError FutureWarning GeneratorExit IOError ImportError ImportWarning IndentationError IndexError
InterruptedError IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError ModuleNotFoundError NameError
NotADirectoryError NotImplementedError OSError OverflowError PendingDeprecationWarning PermissionError ProcessLookupError
PythonFinalizationError RecursionError ReferenceError ResourceWarning RuntimeError RuntimeWarning StandardError
StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError SystemExit TabError TimeoutError TypeError
UnboundLocalError UnicodeDecodeError UnicodeEncodeError UnicodeError UnicodeTranslateError UnicodeWarning UserWarning
ValueError Warning WindowsError ZeroDivisionError
"""

_AST = """
Add And AnnAssign Assert Assign AsyncFor AsyncFunctionDef AsyncWith Attribute AugAssign AugLoad AugStore Await BinOp BitAnd
BitOr BitXor BoolOp Break Bytes Call ClassDef Compare Constant Continue Del Delete Dict DictComp Div Ellipsis Eq
ExceptHandler Expr Expression ExtSlice FloorDiv For FormattedValue FunctionDef FunctionType GeneratorExp Global Gt GtE If
IfExp Import ImportFrom In Index Interactive Invert Is IsNot JoinedStr LShift Lambda List ListComp Load Lt LtE MatMult Match
MatchAs MatchClass MatchMapping MatchOr MatchSequence MatchSingleton MatchStar MatchValue Mod Module Mult Name NameConstant
NamedExpr Nonlocal Not NotEq NotIn Num Or Param ParamSpec Pass Pow RShift Raise Return Set SetComp Slice Starred Store Str Sub
Subscript Try TryStar Tuple TypeAlias TypeIgnore TypeVar TypeVarTuple UAdd USub UnaryOp While With Yield YieldFrom alias arg
arguments comprehension keyword match_case withitem
"""

_NAMES: Mapping[str, str] = {
    "argparse": "Namespace",
    "array": "_array_reconstructor array",
    "ast": _AST,
    "builtins": "Ellipsis NotImplementedType bool buffer bytearray bytes classmethod complex dict ellipsis enumerate float"
    " frozenset int intern iter list long map filter memoryview object property range reduce reversed set slice staticmethod str"
    " super tuple type unicode xrange zip Set ImmutableSet " + _EXCEPTIONS,
    "calendar": "Calendar Day HTMLCalendar Month TextCalendar",
    "collections": "ChainMap Counter OrderedDict UserDict UserList UserString IterableUserDict defaultdict deque"
    " _tuplegetter namedtuple",
    "concurrent.futures._base": "CancelledError DoneAndNotDoneFutures Error InvalidStateError TimeoutError",
    "configparser": "ConfigParser RawConfigParser SectionProxy",
    "contextlib": "AsyncExitStack ExitStack nullcontext suppress",
    "copyreg": "__newobj__ __newobj_ex__ _reconstructor constructor pickle_complex",
    "dataclasses": "Field InitVar _HAS_DEFAULT_FACTORY_CLASS _KW_ONLY_TYPE _MISSING_TYPE",
    "datetime": "date datetime time timedelta timezone tzinfo",
    "decimal": "Context Decimal DecimalTuple DivisionByZero Inexact InvalidOperation Overflow Rounded Underflow",
    "difflib": "Match SequenceMatcher",
    "dill._dill": "_create_array _create_cell _create_code _create_dict_items _create_dict_keys _create_dict_values"
    " _create_dtypemeta _create_ftype _create_function _create_lock _create_namedtuple _create_rlock _create_stringi"
    " _create_stringo _create_type _create_typing_tuple _create_weakproxy _create_weakref _get_attr _import_module"
    " _load_type _setitems _dict_from_dictproxy",
    "dill._shims": "_delattr _setattr",
    "email.message": "EmailMessage Message",
    "enum": "Enum EnumCheck Flag FlagBoundary IntEnum IntFlag ReprEnum StrEnum auto",
    "fractions": "Fraction",
    "functools": "CacheInfo cached_property partial partialmethod reduce",
    "grp": "struct_group",
    "http": "HTTPMethod HTTPStatus",
    "inspect": "ArgInfo ArgSpec Arguments Attribute BoundArguments ClosureVars FrameInfo FullArgSpec Parameter Signature"
    " Traceback _ParameterKind _empty _void",
    "io": "BytesIO StringIO StringI StringO",
    "ipaddress": "IPv4Address IPv4Interface IPv4Network IPv6Address IPv6Interface IPv6Network",
    "itertools": "accumulate batched chain chain.from_iterable combinations combinations_with_replacement compress count cycle"
    " dropwhile filterfalse groupby ifilter ifilterfalse imap islice izip izip_longest pairwise permutations product repeat"
    " starmap takewhile tee zip_longest",
    "json.decoder": "JSONDecodeError JSONDecoder",
    "json.encoder": "JSONEncoder",
    "logging": "Filter Formatter LogRecord Logger PlaceHolder PercentStyle StrFormatStyle StringTemplateStyle getLogger"
    " makeLogRecord",
    "numbers": "Number",
    "operator": "attrgetter getitem itemgetter methodcaller or_ and_ xor add sub mul truediv floordiv mod neg pos not_ eq ne lt"
    " le gt ge concat contains index",
    "optparse": "Values",
    "os": "sched_param stat_result statvfs_result terminal_size times_result uname_result waitid_result",
    "pathlib": "Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath",
    "platform": "uname_result",
    "plistlib": "PlistFormat UID",
    "pstats": "SortKey",
    "pwd": "struct_passwd",
    "py_compile": "PycInvalidationMode",
    "queue": "Empty Full LifoQueue PriorityQueue Queue SimpleQueue",
    "random": "Random SystemRandom",
    "re": "RegexFlag _compile _NamedIntConstant compile error PatternError",
    "resource": "struct_rusage",
    "sched": "Event",
    "selectors": "SelectorKey",
    "shutil": "usage _ntuple_diskusage",
    "signal": "Handlers Sigmasks Signals struct_siginfo",
    "socket": "AddressFamily AddressInfo MsgFlag SocketKind gaierror herror timeout",
    "ssl": "AlertDescription DefaultVerifyPaths Options Purpose SSLErrorNumber TLSVersion VerifyFlags VerifyMode _SSLMethod"
    " _TLSAlertType _TLSContentType _TLSMessageType",
    "statistics": "LinearRegression NormalDist StatisticsError",
    "string": "Formatter Template",
    "struct": "Struct error",
    "subprocess": "CalledProcessError CompletedProcess SubprocessError TimeoutExpired",
    "textwrap": "TextWrapper",
    "time": "struct_time",
    "tokenize": "TokenInfo",
    "traceback": "FrameSummary StackSummary TracebackException",
    "types": "BuiltinFunctionType CellType CodeType EllipsisType FunctionType GenericAlias MappingProxyType MethodType"
    " ModuleType NoneType NotImplementedType SimpleNamespace UnionType code function instancemethod",
    "typing": "ForwardRef NamedTuple NewType ParamSpec TypeAliasType TypeVar TypeVarTuple TypedDict Union _GenericAlias"
    " _LiteralGenericAlias _SpecialForm _UnionGenericAlias _make_nmtuple",
    "urllib.parse": "DefragResult DefragResultBytes ParseResult ParseResultBytes SplitResult SplitResultBytes",
    "uuid": "SafeUUID UUID",
    "weakref": "WeakKeyDictionary WeakSet WeakValueDictionary ref",
    "zoneinfo": "ZoneInfo ZoneInfo._unpickle",
}

MAKES_DATA = frozenset((module, name) for module, names in _NAMES.items() for name in names.split())
"""Module and name of what makes data and does nothing else."""

STANDARD_LIBRARY = (sys.stdlib_module_names | frozenset(_ALIASES) | frozenset(
    {
        "ConfigParser", "HTMLParser", "SocketServer", "BaseHTTPServer", "SimpleHTTPServer", "SimpleXMLRPCServer", "anydbm",
        "asynchat", "asyncore", "cPickle", "cgi", "commands", "compiler", "compression", "concurrent", "crypt", "dbhash",
        "dill", "distutils", "httplib", "ihooks", "imp", "imputil", "nis", "pipes", "popen2", "posixfile", "rexec", "smtpd",
        "spwd", "string", "telnetlib", "thread", "urllib2", "urlparse", "user", "xmlrpclib",
    }
)) - {"pathlib._local", "dill.dill"}  # fmt: skip
"""Top-level modules of this Python, of Python 2, and removed ones; with dill, which is made for pickling code."""

RUNS = frozenset(
    {
        "_ctypes", "_pickle", "bdb", "builtins", "cPickle", "cProfile", "code", "codeop", "commands", "compiler", "copyreg",
        "ctypes", "dill", "distutils", "doctest", "ensurepip", "idlelib", "ihooks", "imp", "importlib", "lib2to3", "marshal",
        "multiprocessing", "os", "pdb", "pickle", "pip", "popen2", "profile", "pty", "pydoc", "rexec", "runpy", "shelve",
        "subprocess", "sys", "timeit", "trace", "user", "venv", "webbrowser", "zipimport",
    }
)  # fmt: skip
"""Top-level modules made for running code: not even an empty object of their classes has a place beside weights."""
