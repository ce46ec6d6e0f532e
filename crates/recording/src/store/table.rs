//! Named columns of numbers in a file: Arrow IPC with zstd, written and read batch by batch.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int8Array, Int64Array, RecordBatch, StringArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow_ipc::CompressionType;
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pageblock_files::{Access, NewFile};

use crate::input::error::Error;
use crate::store::seal::{blank_seal, is_intact, seal};

/// The type of a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnType {
    /// 8 bits.
    U8,
    /// 16 bits.
    U16,
    /// 32 bits.
    U32,
    /// 64 bits.
    U64,
    /// 8 bits with a sign.
    I8,
    /// 64 bits with a sign.
    I64,
    /// One of at most 128 names.
    Names(&'static [&'static str]),
    /// Text, mostly empty.
    Text,
}

/// The values of one column in one batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Column {
    /// 8 bits each.
    U8(Vec<u8>),
    /// 16 bits each.
    U16(Vec<u16>),
    /// 32 bits each.
    U32(Vec<u32>),
    /// 64 bits each.
    U64(Vec<u64>),
    /// 8 bits each, with a sign.
    I8(Vec<i8>),
    /// 64 bits each, with a sign.
    I64(Vec<i64>),
    /// The places of names in [`ColumnType::Names`].
    Names(Vec<i8>),
    /// Texts.
    Text(Texts),
}

/// Texts, one after the other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Texts {
    bytes: String,
    ends: Vec<usize>,
}

impl Texts {
    /// Appends a text.
    pub fn push(&mut self, text: &str) {
        self.bytes += text;
        self.ends.push(self.bytes.len());
    }

    /// Returns the bytes of all texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.bytes[std::mem::replace(&mut start, end)..end])
    }
}

impl ColumnType {
    fn arrow(self) -> DataType {
        match self {
            Self::U8 => DataType::UInt8,
            Self::U16 => DataType::UInt16,
            Self::U32 => DataType::UInt32,
            Self::U64 => DataType::UInt64,
            Self::I8 => DataType::Int8,
            Self::I64 => DataType::Int64,
            Self::Names(_) => {
                DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8))
            }
            Self::Text => DataType::Utf8,
        }
    }

    /// Returns the names, shared by all batches of a table.
    fn names(self) -> Option<ArrayRef> {
        let Self::Names(names) = self else { return None };
        Some(Arc::new(StringArray::from_iter_values(names)))
    }
}

impl Column {
    fn into_array(self, names: Option<&ArrayRef>) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Self::U8(values) => Arc::new(UInt8Array::from(values)),
            Self::U16(values) => Arc::new(UInt16Array::from(values)),
            Self::U32(values) => Arc::new(UInt32Array::from(values)),
            Self::U64(values) => Arc::new(UInt64Array::from(values)),
            Self::I8(values) => Arc::new(Int8Array::from(values)),
            Self::I64(values) => Arc::new(Int64Array::from(values)),
            Self::Names(keys) => {
                let names = names.map_or_else(|| Arc::new(StringArray::new_null(0)), Arc::clone);
                Arc::new(DictionaryArray::<Int8Type>::try_new(Int8Array::from(keys), names)?)
            }
            Self::Text(texts) => Arc::new(StringArray::from_iter_values(texts.iter())),
        })
    }
}

/// Writes a table. The file gets its name when [`TableWriter::finish`] has written it completely; otherwise
/// nothing is left behind.
pub struct TableWriter {
    path: PathBuf,
    new: NewFile,
    writer: Option<FileWriter<BufWriter<File>>>,
    schema: Arc<Schema>,
    /// The names of each column that has some.
    names: Vec<Option<ArrayRef>>,
}

impl TableWriter {
    /// Starts a table with these columns; the folder is created if it does not exist.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path, columns: &[(&str, ColumnType)]) -> Result<Self, Error> {
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            std::fs::create_dir_all(dir).map_err(|e| Error::io(dir, e))?;
        }
        let begun = NewFile::create(path, Access::Private).map_err(|e| Error::io(path, e))?;
        Self::create_with(path, begun, columns, HashMap::new())
    }

    /// Does the same as [`TableWriter::create`] in a file that was begun for the path, with texts at its start, which a
    /// file that was cut still has.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create_with(
        path: &Path,
        (file, new): (File, NewFile),
        columns: &[(&str, ColumnType)],
        head: HashMap<String, String>,
    ) -> Result<Self, Error> {
        let fields: Vec<_> =
            columns.iter().map(|(name, kind)| Field::new(*name, kind.arrow(), false)).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, head));
        let names = columns.iter().map(|(_, kind)| kind.names()).collect();
        let path = path.to_owned();
        let mut table = Self { path, new, writer: None, schema: Arc::clone(&schema), names };
        let options = IpcWriteOptions::default()
            .try_with_compression(Some(CompressionType::ZSTD))
            .map_err(|e| table.error(e))?;
        let writer = FileWriter::try_new_with_options(
            BufWriter::with_capacity(1 << 20, file),
            &schema,
            options,
        );
        table.writer = Some(writer.map_err(|e| table.error(e))?);
        Ok(table)
    }

    /// Appends a batch: one column of values for each column of the table, all of equal length.
    ///
    /// # Errors
    /// If the columns are not those of the table, or the file cannot be written.
    pub fn write(&mut self, columns: Vec<Column>) -> Result<(), Error> {
        let arrays: Result<Vec<_>, _> =
            columns.into_iter().zip(&self.names).map(|(c, n)| c.into_array(n.as_ref())).collect();
        let schema = Arc::clone(&self.schema);
        let batch = arrays.and_then(|arrays| RecordBatch::try_new(schema, arrays));
        let batch = batch.map_err(|e| self.error(e))?;
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.write(&batch).map_err(|e| self.error(e))
    }

    /// Writes the rest and gives the file its name.
    ///
    /// # Errors
    /// If the file cannot be written or renamed.
    pub fn finish(mut self, metadata: &BTreeMap<String, String>) -> Result<(), Error> {
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        for (key, value) in metadata {
            writer.write_metadata(key, value);
        }
        writer.write_metadata("seal", blank_seal());
        writer.finish().map_err(|e| self.error(e))?;
        let buffered = writer.into_inner().map_err(|e| self.error(e))?;
        let file = buffered.into_inner();
        let mut file = file.map_err(|e| Error::io(&self.path, e.into_error()))?;
        let sealed = seal(&mut file).and_then(|()| self.new.finish(&file));
        sealed.map_err(|e| Error::io(&self.path, e))
    }

    fn error(&self, error: ArrowError) -> Error {
        match error {
            ArrowError::IoError(_, source) => Error::io(&self.path, source),
            error => Error::columnar(&self.path, error),
        }
    }
}

/// Reads a table batch by batch; memory is bounded by the largest batch.
pub struct TableReader {
    path: PathBuf,
    reader: FileReader<BufReader<File>>,
}

impl TableReader {
    /// Opens a table with these columns, which [`Batch`] then has in this order; it must be the order of the
    /// table. Verifies the file's checksum.
    ///
    /// # Errors
    /// If the file is not a table, is damaged, or lacks a column.
    pub fn open(path: &Path, columns: &[&str]) -> Result<Self, Error> {
        let mut file = File::open(path).map_err(|e| Error::io(path, e))?;
        if !is_intact(&mut file).map_err(|e| Error::io(path, e))? {
            return Err(Error::columnar(path, "its checksum is absent or wrong"));
        }
        Self::open_verified(path, columns)
    }

    /// Does the same as [`TableReader::open`] for a file that is already verified.
    pub(crate) fn open_verified(path: &Path, columns: &[&str]) -> Result<Self, Error> {
        let (reader, indexes) = guarded(path, || {
            let file = File::open(path).map_err(|e| Error::io(path, e))?;
            let reader = FileReader::try_new(BufReader::new(file), None);
            let schema = reader.map_err(|e| Error::columnar(path, e))?.schema();
            let indexes: Result<Vec<_>, _> = columns.iter().map(|c| schema.index_of(c)).collect();
            let indexes = indexes.map_err(|e| Error::columnar(path, e))?;
            let file = File::open(path).map_err(|e| Error::io(path, e))?;
            let file = BufReader::with_capacity(1 << 16, file);
            let reader = FileReader::try_new(file, Some(indexes.clone()));
            Ok((reader.map_err(|e| Error::columnar(path, e))?, indexes))
        })?;
        if indexes.is_sorted() {
            return Ok(Self { path: path.to_owned(), reader });
        }
        let why = format!("its columns are in another order than {columns:?}");
        Err(Error::columnar(path, why))
    }

    /// Returns the texts that were passed to [`TableWriter::finish`].
    #[must_use]
    pub fn metadata(&self) -> &HashMap<String, String> {
        self.reader.custom_metadata()
    }

    /// Returns the texts that were passed to [`TableWriter::create_with`].
    #[must_use]
    pub fn head(&self) -> HashMap<String, String> {
        self.reader.schema().metadata().clone().into()
    }

    /// Returns the columns' names and types.
    #[must_use]
    pub fn schema(&self) -> Arc<Schema> {
        self.reader.schema()
    }

    /// Reads the next batch; `None` after the last.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn next_batch(&mut self) -> Result<Option<Batch>, Error> {
        let Self { path, reader } = self;
        guarded(path, || match reader.next() {
            None => Ok(None),
            Some(Ok(batch)) => Ok(Some(Batch { batch, path: path.clone() })),
            Some(Err(error)) => Err(Error::columnar(path, error)),
        })
    }
}

/// Runs a call of the Arrow reader, which checks most of what it reads, but not all: it may panic on a damaged
/// file, which is reported as an error here.
pub(crate) fn guarded<T>(path: &Path, call: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(Error::columnar(path, "it is damaged")))
}

/// A column of texts.
#[derive(Clone, Copy)]
pub struct TextColumn<'a>(&'a StringArray);

impl<'a> TextColumn<'a> {
    /// Returns the text of a row; none if there is no such row.
    #[inline]
    #[must_use]
    pub fn get(self, row: usize) -> &'a str {
        if row < self.0.len() { self.0.value(row) } else { "" }
    }

    /// Returns the number of texts.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Reports whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

/// Some consecutive rows of a table.
pub struct Batch {
    pub(crate) batch: RecordBatch,
    pub(crate) path: PathBuf,
}

macro_rules! column_of {
    ($(#[$doc:meta])* $name:ident, $value:ty, $kind:ty) => {
        $(#[$doc])*
        ///
        /// # Errors
        /// If the column has another type.
        pub fn $name(&self, column: usize) -> Result<&[$value], Error> {
            self.primitive::<$kind>(column)
        }
    };
}

impl From<Batch> for RecordBatch {
    fn from(batch: Batch) -> Self {
        batch.batch
    }
}

impl Batch {
    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.batch.num_rows()
    }

    /// Reports whether it has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    column_of!(/// The values of a column of 8 bits.
        u8, u8, UInt8Type);
    column_of!(/// The values of a column of 16 bits.
        u16, u16, UInt16Type);
    column_of!(/// The values of a column of 32 bits.
        u32, u32, UInt32Type);
    column_of!(/// The values of a column of 64 bits.
        u64, u64, UInt64Type);
    column_of!(/// The values of a column of 8 bits with a sign.
        i8, i8, Int8Type);
    column_of!(/// The values of a column of 64 bits with a sign.
        i64, i64, Int64Type);

    /// Returns a column of texts.
    ///
    /// # Errors
    /// If the column has another type.
    pub fn texts(&self, column: usize) -> Result<TextColumn<'_>, Error> {
        let array = self.batch.columns().get(column).and_then(|c| c.as_string_opt::<i32>());
        let array = array.filter(|array| array.null_count() == 0);
        let why = || Error::columnar(&self.path, format!("column {column} is not of texts"));
        array.map(TextColumn).ok_or_else(why)
    }

    /// Returns a column of names: the place of each row's name, and the names.
    ///
    /// # Errors
    /// If the column has another type.
    pub fn names(&self, column: usize) -> Result<(&[i8], TextColumn<'_>), Error> {
        let array = self.batch.columns().get(column);
        let array = array.and_then(|c| c.as_dictionary_opt::<Int8Type>());
        let array = array.filter(|array| array.null_count() == 0);
        array
            .and_then(|array| Some((&array.keys().values()[..], array.values().as_string_opt()?)))
            .filter(|(_, names)| names.null_count() == 0)
            .map(|(keys, names)| (keys, TextColumn(names)))
            .ok_or_else(|| Error::columnar(&self.path, format!("column {column} has no names")))
    }

    fn primitive<T: ArrowPrimitiveType>(&self, column: usize) -> Result<&[T::Native], Error> {
        let array = self.batch.columns().get(column).and_then(|c| c.as_primitive_opt::<T>());
        let array = array.filter(|array| array.null_count() == 0);
        array.map(|array| &array.values()[..]).ok_or_else(|| {
            Error::columnar(&self.path, format!("column {column} is not of type {}", T::DATA_TYPE))
        })
    }
}
